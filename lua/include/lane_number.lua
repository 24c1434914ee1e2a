-- @include call_lanes rarely
-- The number of the lane with this signature, made when it is new; nil when there are too many.
local function lane_number(root, signature, max_lanes)
  local lanes = root .. "lanes"
  local number = redis.call("HGET", lanes, signature)
  if number then
    return number
  end
  -- `next` and `version` stand in the same hash.
  if redis.call("HLEN", lanes) - 2 >= tonumber(max_lanes) then
    return nil
  end
  number = redis.call("HINCRBY", lanes, "next", 1)
  redis.call("HSET", lanes, signature, number)
  call_lanes(root, redis.call("HINCRBY", lanes, "version", 1))
  return tostring(number)
end
