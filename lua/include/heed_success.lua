-- @include types_of
-- @include close_breaker
-- @include touch_type
-- @include refund
-- @include heed_refund rarely
-- What completions mean for the gates of their types. A breaker that is closed forgets its
-- failures, one that is tried closes with its probe; what began before it opened says nothing of
-- one that is open. Where a limit of those at once was used up there is room, and what was set
-- aside and not spent is given back. Who waited may be answered. `how` has the `lanes` of what was
-- completed, its `refunds`, and each lease in `leases` where there are gates.
local function heed_success(root, how)
  local lanes = {}
  how.back = 100
  for _, account in ipairs(refund(root, how.refunds)) do
    heed_refund(root, account, how)
  end
  for lane in pairs(how.leases and how.lanes or {}) do
    lanes[#lanes + 1] = lane
  end
  for _, what in ipairs(#lanes > 0 and redis.call("SMEMBERS", root .. "crowded") or {}) do
    touch_type(root, what, how.touched)
    redis.call("SREM", root .. "crowded", what)
  end
  for _, type in ipairs(#lanes > 0 and types_of(root, lanes) or {}) do
    if redis.call("SISMEMBER", root .. "breakers", type) == 1 then
      local row = redis.call("HMGET", root .. "breaker:" .. type, "state", "probe")
      if not row[1] then
        close_breaker(root, type)
      elseif row[2] and how.leases[row[2]] then
        close_breaker(root, type, row[1], how.events)
        touch_type(root, type, how.touched)
      end
    end
  end
end
