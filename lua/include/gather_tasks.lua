-- @include tell_parents
-- @include leave_gather
-- Notes what a task that runs is to wait for, a part of it: those who end from now on are taken
-- off again. `ask.gather` is { name, part, keep_ms }, the name ends with the token of the attempt;
-- what was noted under another name was never waited for. With the last part, whether there is
-- anything to wait for: it stands in `waits` then.
local function gather_tasks(root, ask, open, trigger)
  local name, part, keep_ms = unpack(ask.gather)
  local key = root .. "gather:" .. ask.id
  if part == "first" and redis.call("SADD", key, name) == 1 then
    leave_gather(root, ask.id)
  end
  redis.call("SADD", key, name, unpack(open))
  redis.call("PEXPIRE", key, keep_ms)
  tell_parents(root, ask.id, open, trigger)
  if part ~= "last" or redis.call("SCARD", key) == 1 then
    return false
  end
  redis.call("SREM", key, name)
  redis.call("PERSIST", key)
  redis.call("RENAME", key, root .. "waits:" .. ask.id)
  return true
end
