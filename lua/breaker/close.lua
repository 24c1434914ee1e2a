-- close: no move
--
-- Lets the tasks of a type be handed out again, and forgets its failures; who waits for them is
-- answered. One that is closed stays so.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 type        whose breaker it is
--       3 tries       how many parked claims may be looked at
--       4 events      length of the events stream
--       5 request     names this call: sent again, it is answered as before and changes nothing
--       6 memo_ms     how long that is remembered
-- FLAGS allow-oom
-- REPLY OK <more>

local root, type, tries, events = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local request, memo_ms = ARGV[5], ARGV[6]

local kept = calls.remembered(root, request)
if kept then
  return kept
end
local was, touched = redis.call("HGET", root .. "breaker:" .. type, "state"), {}
breaker.close(root, type, was, events)
if was then
  lanes.touch_type(root, type, touched)
end
local more = answer.touched(root, values.now_ms(), touched, tries)
return calls.remember(root, request, memo_ms, { "OK", more and 1 or 0 })
