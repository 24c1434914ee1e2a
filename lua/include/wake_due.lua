-- @include touch_type rarely
-- Notes in `touched` the lanes of the types whose gates open by now. Returns when the next one
-- does, if any.
local function wake_due(root, now, touched)
  local wakes = root .. "wakes"
  for _, type in ipairs(redis.call("ZRANGEBYSCORE", wakes, "-inf", now, "LIMIT", 0, 1000)) do
    touch_type(root, type, touched)
    redis.call("ZREM", wakes, type)
  end
  return redis.call("ZRANGE", wakes, 0, 0, "WITHSCORES")[2]
end
