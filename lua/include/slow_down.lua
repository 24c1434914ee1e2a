-- @include emit
-- Hands out nothing of a type for `for_ms`, and then ever more of it, see slow_gate. One that is
-- slowed down for longer stays so.
local function slow_down(root, now, type, for_ms, events)
  local key, until_ms = root .. "slow:" .. type, now + for_ms
  if for_ms == 0 or tonumber(redis.call("HGET", key, "until") or "0") >= until_ms then
    return
  end
  redis.call("DEL", key)
  redis.call("HSET", key, "until", until_ms, "span", for_ms)
  redis.call("SADD", root .. "slowed", type)
  redis.call("ZADD", root .. "wakes", until_ms, type)
  emit(root, events, "type.slowed", type, for_ms)
end
