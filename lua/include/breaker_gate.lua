-- @include still_rides
-- What the breaker of a type lets pass: false for all, "shut" for none, or a gate for the one task
-- that is its probe, when its time has come and no other is under way. Its time is noted each time:
-- gates of a type share one wake.
local function breaker_gate(root, now, type)
  local row = redis.call("HMGET", root .. "breaker:" .. type, "state", "until", "probe")
  if not row[1] or row[1] == "closed" then
    return false
  elseif tonumber(row[2]) > now then
    redis.call("ZADD", root .. "wakes", "LT", row[2], type)
    return "shut"
  elseif still_rides(root, row[3]) then
    return "shut"
  end
  return { left = 1, probe = type }
end
