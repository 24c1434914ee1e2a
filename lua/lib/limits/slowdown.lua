-- Slow-downs after a rate limit was reported.

-- The gate of a type, or of "@<tenant>": "blocked" where nothing passes, false where it is not
-- slowed down, else a gate. When the pause is over, ten steps of a tenth of it follow, with one
-- place in the first and twice as many in each next one, so that the load returns gradually. With
-- "blocked" also returns when it opens; this is written to `wakes` each time, since the gates of a
-- type share an entry.
function slowdown.gate(root, now, what)
  local key = root .. "slow:" .. what
  local row = redis.call("HMGET", key, "until", "span", "step", "passed")
  if not row[1] then
    return false
  end
  local since, width = now - tonumber(row[1]), math.max(1, tonumber(row[2]) / 10)
  local step = math.floor(since / width)
  if step >= 10 then
    redis.call("DEL", key)
    redis.call("SREM", root .. "slowed", what)
    return false
  end
  local passed = row[3] == tostring(step) and tonumber(row[4]) or 0
  if since < 0 or passed >= 2 ^ step then
    local opens = since < 0 and tonumber(row[1]) or math.ceil(row[1] + (step + 1) * width)
    redis.call("ZADD", root .. "wakes", "LT", opens, what)
    return "blocked", opens
  end
  return { left = 2 ^ step - passed, slow = what, step = step, passed = passed }
end

-- Blocks a type, or "@<tenant>", for `for_ms`; then ever more of its tasks pass, see slowdown.gate.
-- A slow-down that lasts longer is not changed.
function slowdown.begin(root, now, what, for_ms, events)
  local key, until_ms = root .. "slow:" .. what, now + for_ms
  if for_ms == 0 or tonumber(redis.call("HGET", key, "until") or "0") >= until_ms then
    return
  end
  redis.call("DEL", key)
  redis.call("HSET", key, "until", until_ms, "span", for_ms)
  redis.call("SADD", root .. "slowed", what)
  redis.call("ZADD", root .. "wakes", until_ms, what)
  local tenant = string.match(what, "^@(.*)$")
  event.emit(root, events, tenant and "key.slowed" or "type.slowed", tenant or what, for_ms)
end
