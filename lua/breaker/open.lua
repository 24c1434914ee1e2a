-- open: no move
--
-- Hands out nothing of a type for a while, as an operator says. When that is over one task is
-- handed out, and how it ends decides. Where it is open already, its rest begins anew.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 type        whose breaker it is
--       3 for_ms      for how long
--       4 events      length of the events stream
--       5 request     names this call: sent again, it is answered as before and changes nothing
--       6 memo_ms     how long that is remembered
-- FLAGS allow-oom
-- REPLY OK

local root, type, for_ms, events = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local request, memo_ms = ARGV[5], ARGV[6]

local kept = calls.remembered(root, request)
if kept then
  return kept
end
breaker.open(root, values.now_ms(), type, for_ms, events)
return calls.remember(root, request, memo_ms, { "OK" })
