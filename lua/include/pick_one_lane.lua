-- @include may_run_alone
-- The first `n` tasks of a single lane: their order is the lane's, no score needs to be read.
local function pick_one_lane(root, now, lane, n, who)
  local key = root .. "lane:" .. lane.number
  if not lane.alone then
    lane.picked = redis.call("ZRANGE", key, 0, n - 1)
  elseif redis.call("ZCARD", key) > 0 and may_run_alone(root, now, lane, 0, who) == "run" then
    lane.picked = redis.call("ZRANGE", key, 0, 0)
  end
  return lane.picked
end
