-- The circuit breaker of a type.

-- The gate of a type's breaker: false where all tasks pass, "blocked" where none does, or a gate
-- for one task, the probe, when the time of the breaker is over and no probe runs. That time is
-- written to `wakes` each time, since the gates of a type share an entry.
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

-- Applies a failed attempt of a `type` to its breaker. `rule` is "" where the failure does not
-- count, else "<threshold> <half_open_ms> <cooldown_ms>": that many failures in a row open the
-- breaker for half_open_ms, and a failed probe opens it again for cooldown_ms. Attempts that began
-- before it opened are only counted. With "probe <cooldown_ms>" the failure counts only for a
-- probe.
function breaker.trip(root, now, type, rule, lease, events)
  local key = root .. "breaker:" .. type
  local again_ms = string.match(rule, "^probe (%d+)$")
  if rule == "" or again_ms then
    if redis.call("HGET", key, "probe") ~= lease then
      return
    elseif again_ms then
      return breaker.open(root, now, type, again_ms, events)
    end
    -- The failure is not one of the service: the next task is the probe, see breaker.free_probe.
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

-- Opens the breaker of a type for `for_ms`: none of its tasks can be claimed. After that one can,
-- and waiting claims are answered, see lua/task/promote.lua.
function breaker.open(root, now, type, for_ms, events)
  local key, until_ms = root .. "breaker:" .. type, now + for_ms
  redis.call("HSET", key, "state", "open", "opened", now, "until", until_ms)
  redis.call("HDEL", key, "probe")
  redis.call("SADD", root .. "breakers", type)
  redis.call("ZADD", root .. "wakes", until_ms, type)
  event.emit(root, events, "breaker.opened", type, for_ms)
end

-- Closes the breaker of a type and forgets its failures. `was` is its state; where it was open,
-- this is emitted as an event.
function breaker.close(root, type, was, events)
  redis.call("DEL", root .. "breaker:" .. type)
  redis.call("SREM", root .. "breakers", type)
  redis.call("ZREM", root .. "wakes", type)
  if was then
    event.emit(root, events, "breaker.closed", type, was)
  end
end

-- Where the lease that ends is the probe of its type's breaker, waiting claims are to be answered:
-- the next task is the probe. Where the probe failed, the breaker is opened after this.
function breaker.free_probe(root, id, token, lane)
  for _, type in ipairs(lanes.types_of(root, { lane })) do
    if redis.call("HGET", root .. "breaker:" .. type, "probe") == id .. " " .. token then
      redis.call("ZADD", root .. "wakes", 0, type)
    end
  end
end

-- Whether the probe of a breaker, "<task> <token>", still runs: the probe is the lease of one task,
-- and ends with it.
function breaker.probe_running(root, probe)
  local id, token = string.match(probe or "", "^(%S+) (%S+)$")
  if not id then
    return false
  end
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "token")
  return row[2] == token
    and (row[1] == "CLAIMED" or row[1] == "RUNNING" or row[1] == "VALIDATING")
end
