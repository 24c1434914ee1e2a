-- @include open_due
-- @include peek_turn
-- @include look_at_key
-- @include load_heads
-- @include may_pass
-- @include stand_in_line
-- The task of a lane of keys that is to be given next: the first of the key whose turn it is, of
-- those that may have one; and its effective priority. False at the end.
local function next_turn(root, now, lane, chunk)
  if not lane.line then
    lane.line, lane.seen, lane.known, lane.row, lane.next, lane.fetched = {}, {}, {}, {}, 1, 0
    lane.past, lane.fresh = {}, {}
    open_due(root, now, lane.number, lane.rules.most, lane.rules.name)
  end
  local given = lane.group and lane.group.at or {}
  while true do
    local one = lane.line[1]
    local member, at = peek_turn(root, lane, chunk)
    if one and one.at < (given[one.key] or one.at) then
      -- Another lane has given it something.
      one.at = given[one.key]
      stand_in_line(lane.line, table.remove(lane.line, 1))
    elseif member and (not one or at < one.at or (at == one.at and member < one.tie)) then
      lane.next = lane.next + 2
      look_at_key(root, now, lane, member, at)
    elseif not one then
      return false, false
    elseif may_pass(one.gates) and (one.pos <= #one.heads or load_heads(root, lane, one)) then
      lane.turn = one
      return one.heads[one.pos], one.heads[one.pos + 1] - lane.rate * (now / 60000)
    else
      table.remove(lane.line, 1)
    end
  end
end
