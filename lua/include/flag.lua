-- @include flagged
-- Adds a letter to the task's `flags` field.
local function flag(root, id, letter)
  local key = root .. "task:" .. id
  local flags = redis.call("HGET", key, "flags") or ""
  if not flagged(flags, letter) then
    redis.call("HSET", key, "flags", flags .. letter)
  end
end
