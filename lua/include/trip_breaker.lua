-- @include open_breaker
-- What a failed attempt of a `type` means for its breaker. `rule` is "" where it does not count,
-- else "<threshold> <half_open_ms> <cooldown_ms>": so many in a row open it for half_open_ms, a
-- probe opens it again for cooldown_ms. Those that began before it opened are only counted. With
-- "probe <cooldown_ms>" it counts as a probe alone.
local function trip_breaker(root, now, type, rule, lease, events)
  local key = root .. "breaker:" .. type
  local again_ms = string.match(rule, "^probe (%d+)$")
  if rule == "" or again_ms then
    if redis.call("HGET", key, "probe") ~= lease then
      return
    elseif again_ms then
      return open_breaker(root, now, type, again_ms, events)
    end
    -- It says nothing of the service: the next one is the probe, and who waits tries, see let_in.
    redis.call("HDEL", key, "probe")
    return
  end
  local threshold, half_open_ms, cooldown_ms = string.match(rule, "^(%d+) (%d+) (%d+)$")
  local row = redis.call("HMGET", key, "state", "probe")
  local failures = redis.call("HINCRBY", key, "failures", 1)
  redis.call("HSET", key, "last_failure", now)
  redis.call("SADD", root .. "breakers", type)
  if row[1] == "half-open" and row[2] == lease then
    open_breaker(root, now, type, cooldown_ms, events)
  elseif not row[1] and failures >= tonumber(threshold) then
    open_breaker(root, now, type, half_open_ms, events)
  end
end
