-- @include freeing
-- What a call collects that completes tasks, by `how` { archive, ttl, limit, events }. Hand-offs
-- and gates are looked at where there are any, which is asked once: `handed`, and `leases` for
-- those that have ended well.
local function completing(root, how)
  local all = freeing(tonumber(how.limit))
  all.archive, all.ttl, all.events = how.archive, how.ttl, how.events
  all.lanes, all.entries, all.ended, all.keyed, all.refunds = {}, {}, {}, {}, {}
  if redis.call("EXISTS", root .. "handoffs", root .. "breakers", root .. "crowded") > 0 then
    all.handed = true
    all.leases = redis.call("EXISTS", root .. "breakers", root .. "crowded") > 0 and {}
  end
  return all
end
