-- @include decoded
-- @include flag
-- Lets a parent know of a task that waits for it, as one that waits for its end or by the trigger
-- `kind`. Whether it did not; a task that waits for what it spawned may stand in either place.
local function mend_edge(root, parent, id, kind, told)
  local dependents, heirs = root .. "dependents:" .. parent, root .. "heirs:" .. parent
  local only = not told and redis.call("HGET", root .. "task:" .. parent, "down") == id
  if only or redis.call("ZSCORE", dependents, id) or redis.call("HEXISTS", heirs, id) == 1 then
    return false
  elseif kind then
    redis.call("HSET", heirs, id, kind)
  else
    redis.call("ZADD", dependents, 0, id)
  end
  flag(root, parent, kind and "h" or "d")
  return true
end
