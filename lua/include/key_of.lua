-- The key of a task that is in a lane of such.
local function key_of(root, id)
  return redis.call("HGET", root .. "task:" .. id, "key") or ""
end
