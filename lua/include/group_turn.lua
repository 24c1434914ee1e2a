-- @include next_turn
-- @include may_pass
-- @include lead_of rarely
-- The next task of a group of lanes: that of the key whose turns have come least far, whatever its
-- lane; among equals by the name of the key, then the most urgent, then the lowest id. Its id,
-- what the group competes by, which is the best that its lanes have, see lead_of, and its lane.
-- False at the end. A lane whose gates let nothing pass leaves the group, and lends it nothing.
local function group_turn(root, now, group, chunk)
  local best, value = nil, math.huge
  for i = #group, 1, -1 do
    local lane = group[i]
    local one, open = lane.turn, may_pass(lane.gates or {})
    if open and (not one or lane == group.last or one.at < (group.at[one.key] or 0)
      or not may_pass(one.gates)) then
      lane.head, lane.points = next_turn(root, now, lane, chunk)
      one = lane.turn
    end
    local other = best and best.turn
    if not (open and lane.head) then
      table.remove(group, i)
    elseif not best or one.at < other.at or one.at == other.at and (one.key < other.key
      or one.key == other.key and (lane.points < best.points
        or lane.points == best.points and lane.head < best.head)) then
      best = lane
    end
  end
  group.last, group.lender = best, best
  if not best then
    return false, false, group.first
  end
  for _, lane in ipairs(group.rivals and group or {}) do
    local lent = lead_of(root, now, lane, chunk) - lane.rate * (now / 60000)
    if lent < math.min(value, best.points) then
      value, group.lender = lent, lane
    end
  end
  return best.head, math.min(value, best.points), best
end
