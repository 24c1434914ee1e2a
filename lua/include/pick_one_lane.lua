-- @include may_run_alone rarely
-- @include pass_gates
-- The first `n` tasks of a single lane: their order is the lane's, no score needs to be read.
local function pick_one_lane(root, now, lane, n, who)
  local key = root .. "lane:" .. lane.number
  for _, gate in ipairs(lane.gates or {}) do
    n = math.min(n, gate.left)
  end
  if n > 0 and not lane.alone then
    lane.picked = redis.call("ZRANGE", key, 0, n - 1)
  elseif n > 0 and redis.call("ZCARD", key) > 0
    and may_run_alone(root, now, lane, 0, who) == "run" then
    lane.picked = redis.call("ZRANGE", key, 0, 0)
  end
  pass_gates(lane, #lane.picked)
  return lane.picked
end
