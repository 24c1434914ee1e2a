-- @include touch_type rarely
-- @include heed_refund rarely
-- Notes in `how.touched` the lanes of what may pass by now: types whose gates open, and for
-- "$<account>" what waits for money. Returns when the next one does, if any.
local function wake_due(root, now, how)
  local wakes = root .. "wakes"
  for _, what in ipairs(redis.call("ZRANGEBYSCORE", wakes, "-inf", now, "LIMIT", 0, 1000)) do
    redis.call("ZREM", wakes, what)
    local account = string.match(what, "^%$(.+)$")
    if account then
      heed_refund(root, account, how)
    else
      touch_type(root, what, how.touched)
    end
  end
  return redis.call("ZRANGE", wakes, 0, 0, "WITHSCORES")[2]
end
