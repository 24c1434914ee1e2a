-- pause: READY -> READY
--
-- Pauses the queue, a type or a lane: none of its tasks can be claimed until it is resumed. Running
-- tasks continue.
--
-- KEYS  1 paused      set     what is paused
-- ARGV  1 root        prefix of every key of the shard
--       2 what        queue, type=<type> or lane=<number>
--       3 request     name of this call; repeated, it returns the first reply and changes nothing
--       4 memo_ms     how long the reply is kept for a repeated call
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
