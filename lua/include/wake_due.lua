-- @include touch_type rarely
-- @include is_keyed
-- @include wake_lane rarely
-- Notes in `touched` the lanes of the types and keys whose gates open by now, and the lanes of keys
-- that have some whose time has come. Returns when the next one does, if any.
local function wake_due(root, now, touched)
  local wakes = root .. "wakes"
  for _, what in ipairs(redis.call("ZRANGEBYSCORE", wakes, "-inf", now, "LIMIT", 0, 1000)) do
    redis.call("ZREM", wakes, what)
    if is_keyed(what) then
      wake_lane(root, now, what)
      touched[what] = true
    else
      touch_type(root, what, touched)
    end
  end
  return redis.call("ZRANGE", wakes, 0, 0, "WITHSCORES")[2]
end
