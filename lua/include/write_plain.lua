-- @include def_fields
-- Writes a READY task but for its place in the lane, which the caller adds for many at once.
local function write_plain(root, id, lane, score, def)
  local entry = redis.call("XADD", root .. "ready", "*", "task", id)
  local fields = { "state", "READY", "lane", lane, "entry", entry, "score", score }
  if def_fields(fields, def) then
    redis.call("SET", root .. "def:" .. id, def)
  end
  redis.call("HSET", root .. "task:" .. id, unpack(fields))
end
