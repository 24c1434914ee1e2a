-- @include make_lane rarely
-- The number of the lane of a kind { signature }, made when it is new; nil when there are too
-- many. It is remembered in the kind.
local function lane_number(root, kind, max_lanes, now)
  if not kind.number then
    kind.number = redis.call("HGET", root .. "lanes", kind.signature)
      or make_lane(root, kind.signature, max_lanes, now)
  end
  return kind.number
end
