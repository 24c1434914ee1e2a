-- @include load_heads
-- @include stand_in_line
-- @include lead_on
-- The first task of the key whose turn it is is passed over: its next one is looked at instead, in
-- the same turn, or without turns at its own place.
local function pass_over(root, lane)
  local one = lane.turn
  lane.past[one.heads[one.pos]] = true
  one.pos, one.over = one.pos + 2, true
  if lane.group then
    return lead_on(root, lane, one)
  end
  table.remove(lane.line, 1)
  if one.pos <= #one.heads or load_heads(root, lane, one) then
    one.tie, one.at = one.heads[one.pos], tonumber(one.heads[one.pos + 1])
    stand_in_line(lane.line, one)
  end
end
