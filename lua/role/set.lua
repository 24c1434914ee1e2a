-- set: no move
--
-- Gives a principal a role, if the caller may. Moves that create tasks check it.
--
-- KEYS  1 roles       hash    principal -> its role
-- ARGV  1 root        prefix of every key of the shard
--       2 principal   who gets the role
--       3 role        its role from now on
--       4 events      maximum length of the events stream
--       5 who         JSON {by, may}: the callers, and the roles that may; "" for no check
--       6 request     name of this call; repeated, it returns the first reply and changes nothing
--       7 memo_ms     how long the reply is kept for a repeated call
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
