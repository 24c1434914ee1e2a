-- @include emit
-- Hands out nothing of a type, or of "@<key>", for `for_ms`, and then ever more of it, see
-- slow_gate. What is slowed down for longer stays so.
local function slow_down(root, now, what, for_ms, events)
  local key, until_ms = root .. "slow:" .. what, now + for_ms
  if for_ms == 0 or tonumber(redis.call("HGET", key, "until") or "0") >= until_ms then
    return
  end
  redis.call("DEL", key)
  redis.call("HSET", key, "until", until_ms, "span", for_ms)
  redis.call("SADD", root .. "slowed", what)
  redis.call("ZADD", root .. "wakes", until_ms, what)
  local named = string.match(what, "^@(.*)$")
  emit(root, events, named and "key.slowed" or "type.slowed", named or what, for_ms)
end
