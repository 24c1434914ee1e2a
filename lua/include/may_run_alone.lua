-- @include kept_free_by
-- Whether a lane's task that runs alone may be picked after `picked` others: "run" where the hands
-- are empty; "drain" where this worker keeps them free for it from now on; "skip" where another
-- one does. Without draining, a worker that always holds something would never come to it.
local function may_run_alone(root, now, lane, picked, who)
  if who.solo and picked == 0 then
    redis.call("HDEL", root .. "draining", lane.number)
    return "run"
  end
  local by = kept_free_by(root, now, lane.number)
  if by and by ~= who.consumer then
    return "skip"
  end
  redis.call("HSET", root .. "draining", lane.number, now + lane.alone .. " " .. who.consumer)
  return "drain"
end
