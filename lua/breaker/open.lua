-- open: no move
--
-- Hands out nothing of a type for a while, as an operator says. When that is over one task is
-- handed out, and how it ends decides. A call that is sent again changes nothing; another one
-- begins anew.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 type        whose breaker it is
--       3 for_ms      for how long
--       4 events      length of the events stream
--       5 request     names this call
-- TOUCHES breaker:<type> breakers wakes events
-- FLAGS allow-oom
-- REPLY OK

-- @include now_ms
-- @include open_breaker

local root, type, for_ms, events, request = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local key = root .. "breaker:" .. type
if redis.call("HGET", key, "request") ~= request then
  open_breaker(root, now_ms(), type, for_ms, events)
  redis.call("HSET", key, "request", request)
end
return { "OK" }
