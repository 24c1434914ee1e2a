-- @include may_pass
-- @include may_run_alone
-- @include pay_from rarely
-- Whether the head of a lane may be picked after `picked` others: nil for yes and on, "skip" for
-- no, "next" where another task or key of the lane may, else what may_run_alone says: nothing is
-- given beside a task that runs alone.
local function lane_verdict(root, now, lane, head, picked, who)
  if lane.gates and not may_pass(lane.gates) then
    return "skip"
  elseif lane.rules and not may_pass(lane.turn.gates) then
    return "next"
  end
  local verdict = lane.alone and may_run_alone(root, now, lane, picked, who) or nil
  if who.purse and lane.priced and (not verdict or verdict == "run") then
    return pay_from(root, now, who.purse, lane, head) or verdict
  end
  return verdict
end
