-- open: no move
--
-- Opens the breaker of a type for a time, by order of an operator: none of its tasks can be
-- claimed. After that time one task can be claimed as a probe, and its outcome closes the breaker
-- or opens it again. Where the breaker is open already, its time begins anew.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 type        the type of the breaker
--       3 for_ms      for how long
--       4 events      maximum length of the events stream
--       5 request     name of this call; repeated, it returns the first reply and changes nothing
--       6 memo_ms     how long the reply is kept for a repeated call
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
