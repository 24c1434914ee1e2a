-- A key was given a turn, in all lanes of its group: how far its turns have come. Where they are
-- behind those of all, because no worker looked at its lane, it is so many turns at once, by its
-- weight, and no further than one more than all: it makes up for little of what it has missed.
local function move_on(lane, one)
  local group, at = lane.group, one.at
  local missed = math.floor(math.max(0, group.now - at) / lane.rules.step)
  one.at = math.min(at + one.step * (1 + missed), math.max(group.now, at) + one.step)
  one.tags[#one.picked], one.moves[#one.picked] = at, one.at - at
  group.at[one.key], group.now = one.at, math.max(group.now, at)
end
