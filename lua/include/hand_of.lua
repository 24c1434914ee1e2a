-- @include keyed_lanes
-- How many tasks of a key are in hand, of a type or of the queue for "*".
local function hand_of(root, type, key)
  local hand, sum = root .. "hand:" .. key, 0
  if type == "*" then
    return redis.call("ZCARD", hand)
  end
  for _, lane in ipairs(keyed_lanes(root, type)) do
    sum = sum + redis.call("ZCOUNT", hand, lane, lane)
  end
  return sum
end
