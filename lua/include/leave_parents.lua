-- @include leave_each
-- Takes a task off the lists of those it waits for, or is about to (`set` is "waits" or "gather"),
-- up to `limit` of them.
local function leave_parents(root, id, set, limit)
  leave_each(root, id, redis.call("SPOP", root .. set .. ":" .. id, limit))
end
