-- Whether a lane's task that runs alone may be picked after `picked` others: "run" where the hands
-- are empty; "drain" where this worker keeps them free for it from now on; "skip" where another
-- one does. Without draining, a worker that always holds something would never come to it.
local function may_run_alone(root, now, lane, picked, who)
  if who.solo and picked == 0 then
    redis.call("HDEL", root .. "draining", lane.number)
    return "run"
  end
  local kept, by = string.match(redis.call("HGET", root .. "draining", lane.number) or "",
    "^(%d+) (.+)$")
  if kept and by ~= who.consumer and tonumber(kept) > now then
    return "skip"
  end
  redis.call("HSET", root .. "draining", lane.number, now + lane.alone .. " " .. who.consumer)
  return "drain"
end
