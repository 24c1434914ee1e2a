-- @include count_passed
-- What was picked of a key leaves it; what was given, by its row in `rows`, is in hand. Returns
-- where the turns of the key were at the last of those, if any.
local function leave_key(root, now, lane, one, rows)
  local passed, hand, last = {}, {}, nil
  for i, id in ipairs(one.picked) do
    if rows[id] then
      passed[#passed + 1], last = rows[id], one.began + (i - 1) * one.step
      hand[#hand + 1], hand[#hand + 2] = lane.number, id
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
  one.passed = #passed
  return last
end
