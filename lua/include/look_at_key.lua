-- @include key_of
-- @include key_gates
-- @include load_heads
-- @include stand_in_line
-- Lets a key of a lane stand in line: by how far its turns have come, or without turns by its first
-- task, of which `member` is one.
local function look_at_key(root, now, lane, member, at)
  local rules, group = lane.rules, lane.group
  local key = group and member or key_of(root, member)
  local known = lane.known[key]
  if known then
    known.members[#known.members + 1] = member
    return
  end
  local one = { key = key, at = at, came = at, tie = member, members = { member }, from = 0,
    size = 2, heads = {}, pos = 1, picked = {}, step = rules.steps[key] or rules.step,
    gates = key_gates(root, now, rules, lane.doors, key) }
  lane.known[key], lane.seen[#lane.seen + 1] = one, one
  if group then
    one.at, one.tags, one.moves = math.max(at, group.at[key] or at), {}, {}
    stand_in_line(lane.line, one)
  elseif load_heads(root, lane, one) then
    one.tie, one.at = one.heads[1], tonumber(one.heads[2])
    stand_in_line(lane.line, one)
  end
end
