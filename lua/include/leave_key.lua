-- @include count_passed
-- What was picked of a key leaves it; what was given, by its row in `rows`, is in hand. What was
-- held back costs the key no turn.
local function leave_key(root, now, lane, one, rows)
  local passed, hand, group = {}, {}, lane.group
  for i, id in ipairs(one.picked) do
    if rows[id] then
      passed[#passed + 1] = rows[id]
      hand[#hand + 1], hand[#hand + 2] = lane.number, id
      if group then
        group.served = math.max(group.served, one.tags[i])
      end
    elseif group then
      group.at[one.key] = group.at[one.key] - one.moves[i]
    end
    lane.gone[#lane.gone + 1] = id
  end
  if one.picked[1] then
    redis.call("ZREM", root .. "keyed:" .. lane.number .. ":" .. one.key, unpack(one.picked))
  end
  if #hand > 0 then
    redis.call("ZADD", root .. "hand:" .. one.key, unpack(hand))
  end
  count_passed(root, now, one.gates, passed)
end
