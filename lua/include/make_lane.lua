-- @include call_lanes
-- Makes a lane and tells those who wait; its number, nil when there are too many already.
local function make_lane(root, signature, max_lanes)
  local lanes = root .. "lanes"
  -- `next` and `version` stand in the same hash.
  if redis.call("HLEN", lanes) - 2 >= tonumber(max_lanes) then
    return nil
  end
  local number = redis.call("HINCRBY", lanes, "next", 1)
  redis.call("HSET", lanes, signature, number)
  call_lanes(root, redis.call("HINCRBY", lanes, "version", 1))
  return tostring(number)
end
