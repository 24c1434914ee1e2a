-- close: no move
--
-- Closes the breaker of a type: its failures are forgotten, its tasks can be claimed again, and
-- waiting claims are answered. A closed breaker stays closed.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 type        the type of the breaker
--       3 tries       how many waiting claims to check at most
--       4 events      maximum length of the events stream
--       5 request     name of this call; repeated, it returns the first reply and changes nothing
--       6 memo_ms     how long the reply is kept for a repeated call
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
