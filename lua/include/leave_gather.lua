-- @include leave_parents
-- Forgets what a task was to wait for and never did: those who were told of it, one way or another,
-- shall not tell it, which may wait for them otherwise.
local function leave_gather(root, id)
  leave_parents(root, id, "gather", 1000)
  redis.call("DEL", root .. "gather:" .. id)
end
