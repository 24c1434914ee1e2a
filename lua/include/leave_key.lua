-- @include count_passed
-- What was picked of a key, and what it should not have had, leaves it; what was given, by its row
-- in `rows`, is in hand. Returns where the turns of the key were at the last of those, if any.
local function leave_key(root, now, lane, one, rows)
  local gone, passed, hand, last = {}, {}, {}, nil
  for i, id in ipairs(one.picked) do
    gone[#gone + 1] = id
    if rows[id] then
      passed[#passed + 1], last = rows[id], one.began + (i - 1) * one.step
      hand[#hand + 1], hand[#hand + 2] = lane, id
    end
  end
  for _, id in ipairs(one.stale) do
    gone[#gone + 1] = id
  end
  if #gone > 0 then
    redis.call("ZREM", root .. "keyed:" .. lane .. ":" .. one.key, unpack(gone))
    redis.call("ZREM", root .. "heads:" .. lane, unpack(gone))
  end
  if #hand > 0 then
    redis.call("ZADD", root .. "hand:" .. one.key, unpack(hand))
  end
  count_passed(root, now, one.gates, passed)
  one.passed = #passed
  return last
end
