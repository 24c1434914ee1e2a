-- @include call_lanes
-- Makes a lane and tells those who wait; its number, nil when there are too many already.
-- Versions begin at the time: those of a server that has lost its data must not come again.
local function make_lane(root, signature, max_lanes, now)
  local lanes = root .. "lanes"
  -- `next` and `version` stand in the same hash.
  if redis.call("HLEN", lanes) - 2 >= tonumber(max_lanes) then
    return nil
  end
  local number = tostring(redis.call("HINCRBY", lanes, "next", 1))
  if string.find(signature, '"keyed":true', 1, true) then
    -- Known as a lane of keys by its number alone, see is_keyed.
    number = "-" .. number
  end
  redis.call("HSET", lanes, signature, number)
  redis.call("HSETNX", lanes, "version", string.format("%.0f", now))
  call_lanes(root, string.format("%.0f", redis.call("HINCRBY", lanes, "version", 1)))
  return number
end
