-- @include emit
-- Opens the breaker of a type for a while: none of its tasks is handed out. When that is over one
-- is, and whoever waits for it is answered, see lua/task/promote.lua.
local function open_breaker(root, now, type, for_ms, events)
  local key, until_ms = root .. "breaker:" .. type, now + for_ms
  redis.call("HSET", key, "state", "open", "opened", now, "until", until_ms)
  redis.call("HDEL", key, "probe")
  redis.call("SADD", root .. "breakers", type)
  redis.call("ZADD", root .. "wakes", until_ms, type)
  emit(root, events, "breaker.opened", type, for_ms)
end
