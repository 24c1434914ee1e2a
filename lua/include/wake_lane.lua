-- @include open_due
-- The time of keys of a lane has come; the lane is woken again when that of the next has.
local function wake_lane(root, now, lane)
  open_due(root, now, lane, 1000)
  local following = redis.call("ZRANGE", root .. "shut:" .. lane, 0, 0, "WITHSCORES")[2]
  if following and tonumber(following) < math.huge then
    redis.call("ZADD", root .. "wakes", following, lane)
  end
end
