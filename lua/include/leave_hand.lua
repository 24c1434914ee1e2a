-- @include key_of
-- @include keyed_lanes
-- @include line_up
-- A task with a key leaves the hand. Where its key was found to have as many in hand as may be, it
-- has its turns again: its lanes are noted in `touched`, or the promoter answers who waits.
local function leave_hand(root, id, touched)
  local key = key_of(root, id)
  redis.call("ZREM", root .. "hand:" .. key, id)
  if redis.call("SREM", root .. "full", key) == 0 then
    return
  end
  for _, lane in ipairs(keyed_lanes(root, "*")) do
    if redis.call("ZREM", root .. "shut:" .. lane, key) == 1 then
      line_up(root, lane, key)
      if touched then
        touched[lane] = true
      else
        redis.call("ZADD", root .. "wakes", 0, lane)
      end
    end
  end
end
