-- set: no move
--
-- Gives a principal a role, which the scripts that create tasks look up, if who asks may.
--
-- KEYS  1 roles       hash    principal -> its role
-- ARGV  1 root        prefix of every key of the shard
--       2 principal   who
--       3 role        what it is from now on
--       4 events      length of the events stream
--       5 who         JSON {by, may}: who asks, and the roles that may; "" for nobody
--       6 request     names this call: sent again, it is answered as before and changes nothing
--       7 memo_ms     how long that is remembered
-- FLAGS allow-oom
-- REPLY OK | FORBIDDEN <principal role>

local roles = KEYS[1]
local root, principal, role, events = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local who, request, memo_ms = ARGV[5], ARGV[6], ARGV[7]

local kept = calls.remembered(root, request)
if kept then
  return kept
end
local refused = who ~= "" and calls.role_refused(root, who)
if refused then
  return { "FORBIDDEN", refused }
end
if redis.call("HGET", roles, principal) ~= role then
  redis.call("HSET", roles, principal, role)
  event.emit(root, events, "role.set", principal, role)
end
return calls.remember(root, request, memo_ms, { "OK" })
