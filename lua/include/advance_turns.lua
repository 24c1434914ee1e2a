-- The turns have come as far as that of the last task given. Each key that was given something goes
-- on from behind that, in all lanes of the group. One that was not stays where it is, also if it
-- was looked at and its lane was full or its task too dear: who waits keeps its place.
-- How far the turns of a key have come is remembered while those of all are not so far.
local function advance_turns(root, group, lanes)
  local turned, now = root .. "turned", math.max(group.came, group.served)
  local further = { now, "@now" }
  for key, at in pairs(group.at) do
    if at > now then
      further[#further + 1], further[#further + 2] = at, key
    end
  end
  redis.call("ZADD", turned, "GT", unpack(further))
  redis.call("ZREMRANGEBYSCORE", turned, "-inf", string.format("(%.0f", now))
  for _, lane in ipairs(lanes) do
    local moved, more = {}, lane.row[lane.next] or lane.capped
    for key, at in pairs(lane.group and group.at or {}) do
      local one = lane.known[key]
      if one and at > one.came or not one and more then
        moved[#moved + 1], moved[#moved + 2] = at, key
      end
    end
    if #moved > 0 then
      redis.call("ZADD", root .. "turns:" .. lane.number, "XX", "GT", unpack(moved))
    end
  end
end
