-- @include touch_type rarely
-- @include is_keyed
-- @include wake_lane rarely
-- @include heed_refund rarely
-- Notes in `how.touched` the lanes of the types and keys whose gates open by now, the lanes of keys
-- that have some whose time has come, and for "$<account>" what waits for money. Returns when the
-- next one does, if any.
local function wake_due(root, now, how)
  local wakes = root .. "wakes"
  for _, what in ipairs(redis.call("ZRANGEBYSCORE", wakes, "-inf", now, "LIMIT", 0, 1000)) do
    redis.call("ZREM", wakes, what)
    local account = string.match(what, "^%$(.+)$")
    if account then
      heed_refund(root, account, how)
    elseif is_keyed(what) then
      wake_lane(root, now, what)
      how.touched[what] = true
    else
      touch_type(root, what, how.touched)
    end
  end
  return redis.call("ZRANGE", wakes, 0, 0, "WITHSCORES")[2]
end
