-- @include decoded
-- @include flagged
-- What the task has beyond the plain: key, tags, deadline, timeout, life ...; mostly nothing.
local function more_of(root, id, flags)
  return flagged(flags, "m") and decoded(redis.call("HGET", root .. "task:" .. id, "more")) or {}
end
