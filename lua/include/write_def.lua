-- @include def_fields
-- Replaces the definition of a task.
local function write_def(root, id, def)
  local key = root .. "task:" .. id
  redis.call("DEL", root .. "def:" .. id)
  redis.call("HDEL", key, "def0", "def1", "def2", "def3", "def4", "def5", "def6", "def7")
  local list = {}
  if def_fields(list, def) then
    redis.call("SET", root .. "def:" .. id, def)
  else
    redis.call("HSET", key, unpack(list))
  end
end
