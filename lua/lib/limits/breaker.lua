-- The circuit breaker of a type.

-- What the breaker of a type lets pass: false for all, "blocked" for none, or a gate for one task
-- that is its probe, when its time has come and no other is under way. Its time is noted each time:
-- gates of a type share one wake.
function breaker.gate(root, now, type)
  local row = redis.call("HMGET", root .. "breaker:" .. type, "state", "until", "probe")
  if not row[1] or row[1] == "closed" then
    return false
  elseif tonumber(row[2]) > now then
    redis.call("ZADD", root .. "wakes", "LT", row[2], type)
    return "blocked"
  elseif breaker.probe_running(root, row[3]) then
    return "blocked"
  end
  return { left = 1, probe = type }
end

-- What a failed attempt of a `type` means for its breaker. `rule` is "" where it does not count,
-- else "<threshold> <half_open_ms> <cooldown_ms>": so many in a row open it for half_open_ms, a
-- probe opens it again for cooldown_ms. Those that began before it opened are only counted. With
-- "probe <cooldown_ms>" it counts as a probe alone.
function breaker.trip(root, now, type, rule, lease, events)
  local key = root .. "breaker:" .. type
  local again_ms = string.match(rule, "^probe (%d+)$")
  if rule == "" or again_ms then
    if redis.call("HGET", key, "probe") ~= lease then
      return
    elseif again_ms then
      return breaker.open(root, now, type, again_ms, events)
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
    breaker.open(root, now, type, cooldown_ms, events)
  elseif not row[1] and failures >= tonumber(threshold) then
    breaker.open(root, now, type, half_open_ms, events)
  end
end

-- Opens the breaker of a type for a while: none of its tasks is handed out. When that is over one
-- is, and whoever waits for it is answered, see lua/task/promote.lua.
function breaker.open(root, now, type, for_ms, events)
  local key, until_ms = root .. "breaker:" .. type, now + for_ms
  redis.call("HSET", key, "state", "open", "opened", now, "until", until_ms)
  redis.call("HDEL", key, "probe")
  redis.call("SADD", root .. "breakers", type)
  redis.call("ZADD", root .. "wakes", until_ms, type)
  event.emit(root, events, "breaker.opened", type, for_ms)
end

-- Closes the breaker of a type and forgets its failures. `was` is its state: of one that was open
-- the others are told.
function breaker.close(root, type, was, events)
  redis.call("DEL", root .. "breaker:" .. type)
  redis.call("SREM", root .. "breakers", type)
  redis.call("ZREM", root .. "wakes", type)
  if was then
    event.emit(root, events, "breaker.closed", type, was)
  end
end

-- Where a lease that ends is the one that tries the breaker of its type, who waits for that is to
-- be answered: the next one tries. If it has failed, the breaker is opened after this.
function breaker.free_probe(root, id, token, lane)
  for _, type in ipairs(lanes.types_of(root, { lane })) do
    if redis.call("HGET", root .. "breaker:" .. type, "probe") == id .. " " .. token then
      redis.call("ZADD", root .. "wakes", 0, type)
    end
  end
end

-- Whether a breaker's probe, "<task> <token>", is still under way: it rides the lease of the one
-- task that was handed out, and goes with it, however that ends.
function breaker.probe_running(root, probe)
  local id, token = string.match(probe or "", "^(%S+) (%S+)$")
  if not id then
    return false
  end
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "token")
  return row[2] == token
    and (row[1] == "CLAIMED" or row[1] == "RUNNING" or row[1] == "VALIDATING")
end
