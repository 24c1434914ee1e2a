-- @include may_pass
-- @include may_run_alone
-- Whether the head of a lane may be picked after `picked` others: nil for yes and on, "skip" for
-- no, "next" where another key of the lane may, else what may_run_alone says: nothing is given
-- beside a task that runs alone.
local function lane_verdict(root, now, lane, picked, who)
  if lane.gates and not may_pass(lane.gates) then
    return "skip"
  elseif lane.rules and not may_pass(lane.turn.gates) then
    return "next"
  end
  return lane.alone and may_run_alone(root, now, lane, picked, who) or nil
end
