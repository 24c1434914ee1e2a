-- @include pass_gates
-- @include load_heads
-- @include stand_in_line
-- @include move_on
-- @include lead_on
-- The first task of the key whose turn it is was picked: it stands in line again, a turn further.
local function pass_turn(root, lane)
  local one = lane.turn
  one.picked[#one.picked + 1], lane.past[one.heads[one.pos]] = one.heads[one.pos], true
  one.pos = one.pos + 2
  pass_gates(one, 1)
  table.remove(lane.line, 1)
  if lane.group then
    move_on(lane, one)
    stand_in_line(lane.line, one)
    lead_on(root, lane, one)
  elseif one.pos <= #one.heads or load_heads(root, lane, one) then
    one.tie, one.at = one.heads[one.pos], tonumber(one.heads[one.pos + 1])
    stand_in_line(lane.line, one)
  end
end
