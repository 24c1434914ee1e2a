-- @include touch_type rarely
-- @include is_keyed
-- @include wake_lane rarely
-- @include heed_refund rarely
-- Notes in `how.touched` the lanes of the types and keys whose gates open by now, the lanes of keys
-- that have some whose time has come, and for "$<account>" what waits for money: `most` of them,
-- and no more tasks of DAGs than `how.back`. What is left is for the next call: whether there may
-- be something.
local function wake_due(root, now, how, most)
  local wakes = root .. "wakes"
  -- The last first: those are gates, which must not wait for a thousand DAGs before them.
  local due = redis.call("ZREVRANGEBYSCORE", wakes, now, "-inf", "LIMIT", 0, most)
  for _, what in ipairs(due) do
    local account = string.match(what, "^%$(.+)$")
    if account and how.back <= 0 then
      return true
    end
    redis.call("ZREM", wakes, what)
    if account then
      heed_refund(root, account, how)
    elseif is_keyed(what) then
      wake_lane(root, now, what)
      how.touched[what] = true
    else
      touch_type(root, what, how.touched)
    end
  end
  return #due == tonumber(most)
end
