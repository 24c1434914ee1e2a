-- @include pass_gates
-- @include pass_turn rarely
-- The head of a lane was picked that has gates or keys.
local function pass_head(root, lane)
  pass_gates(lane, 1)
  if lane.rules then
    pass_turn(root, lane)
  end
end
