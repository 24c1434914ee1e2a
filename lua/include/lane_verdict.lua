-- @include may_pass
-- @include may_run_alone
-- @include price_of rarely
-- @include pass_dear rarely
-- Whether the head of a lane may be picked after `picked` others: nil for yes and on, "skip" for
-- no, "next" where another task or key of the lane may, or where the lane is full by now that lends
-- its group its priority; else what may_run_alone says: nothing is given beside a task that runs
-- alone.
local function lane_verdict(root, now, lane, head, picked, who)
  local lender = lane.group and lane.group.lender
  if lane.gates and not may_pass(lane.gates) then
    return "skip"
  elseif lane.rules and not may_pass(lane.turn.gates)
    or lender and not may_pass(lender.gates or {}) then
    return "next"
  end
  local price = who.purse and lane.priced and price_of(root, head)
  if price and price > who.purse.left then
    return pass_dear(root, now, who.purse, lane)
  end
  local verdict = lane.alone and may_run_alone(root, now, lane, picked, who) or nil
  if price and (not verdict or verdict == "run") then
    who.purse.left = who.purse.left - price
  end
  return verdict
end
