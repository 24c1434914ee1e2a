-- lift: no move
--
-- Ends the rest of a type or "@<key>" that is slowed down, and the recovery after it; who waits for
-- its tasks is answered. What is not slowed down stays so. When others are woken is left as it is:
-- a breaker or a limit of the same name may have to be.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 what        the type, or "@<key>"
--       3 tries       how many parked claims may be looked at
--       4 events      length of the events stream
--       5 request     names this call: sent again, it is answered as before and changes nothing
--       6 memo_ms     how long that is remembered
-- FLAGS allow-oom
-- REPLY OK <more> <1 where it was slowed down>

local root, what, tries, events = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local request, memo_ms = ARGV[5], ARGV[6]

local kept = calls.remembered(root, request)
if kept then
  return kept
end
local now, key, touched = values.now_ms(), string.match(what, "^@(.*)$"), {}
local rests = redis.call("HGET", root .. "slow:" .. what, "until")
redis.call("DEL", root .. "slow:" .. what)
redis.call("SREM", root .. "slowed", what)
if rests and key then
  tenants.reopen(root, key, touched)
elseif rests then
  lanes.touch_type(root, what, touched)
end
if rests then
  local left = string.format("%.0f", math.max(0, tonumber(rests) - now))
  event.emit(root, events, key and "key.lifted" or "type.lifted", key or what, left)
end
local more = answer.touched(root, now, touched, tries)
return calls.remember(root, request, memo_ms, { "OK", more and 1 or 0, rests and 1 or 0 })
