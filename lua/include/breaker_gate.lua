-- @include still_rides
-- What the breaker of a type lets pass: false for all, "shut" for none, or a gate for the one task
-- that is its probe, when its time has come and no other is under way.
local function breaker_gate(root, now, type)
  local row = redis.call("HMGET", root .. "breaker:" .. type, "state", "until", "probe")
  if not row[1] or row[1] == "closed" then
    return false
  elseif tonumber(row[2]) > now or still_rides(root, row[3]) then
    return "shut"
  end
  return { left = 1, probe = type }
end
