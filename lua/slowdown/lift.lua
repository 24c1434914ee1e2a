-- lift: no move
--
-- Ends the slow-down of a type or of "@<tenant>" with the recovery after it, and answers waiting
-- claims. Nothing changes where there is no slow-down. `wakes` is not changed: a breaker or a limit
-- of the same name may need its entry.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 what        the type, or "@<tenant>"
--       3 tries       how many waiting claims to check at most
--       4 events      maximum length of the events stream
--       5 request     name of this call; repeated, it returns the first reply and changes nothing
--       6 memo_ms     how long the reply is kept for a repeated call
-- FLAGS allow-oom
-- REPLY OK <more> <1 where it was slowed down>

local root, what, tries, events = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local request, memo_ms = ARGV[5], ARGV[6]

local kept = calls.remembered(root, request)
if kept then
  return kept
end
local now, tenant, touched = values.now_ms(), string.match(what, "^@(.*)$"), {}
local until_ms = redis.call("HGET", root .. "slow:" .. what, "until")
redis.call("DEL", root .. "slow:" .. what)
redis.call("SREM", root .. "slowed", what)
if until_ms and tenant then
  tenants.reopen(root, tenant, touched)
elseif until_ms then
  lanes.touch_type(root, what, touched)
end
if until_ms then
  local left = string.format("%.0f", math.max(0, tonumber(until_ms) - now))
  event.emit(root, events, tenant and "key.lifted" or "type.lifted", tenant or what, left)
end
local more = answer.touched(root, now, touched, tries)
return calls.remember(root, request, memo_ms, { "OK", more and 1 or 0, until_ms and 1 or 0 })
