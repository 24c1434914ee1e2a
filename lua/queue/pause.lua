-- pause: READY -> READY
--
-- Nothing of the queue, type or lane is handed out until it is resumed. What runs goes on.
--
-- KEYS  1 paused      set     what is paused
-- ARGV  1 root        prefix of every key of the shard
--       2 what        queue, type=<type> or lane=<number>
--       3 request     names this call: sent again, it is answered as before and changes nothing
--       4 memo_ms     how long that is remembered
-- FLAGS allow-oom
-- REPLY OK

local paused = KEYS[1]
local root, what, request, memo_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local kept = calls.remembered(root, request)
if kept then
  return kept
end
redis.call("SADD", paused, what)
return calls.remember(root, request, memo_ms, { "OK" })
