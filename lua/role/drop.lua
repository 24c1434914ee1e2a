-- drop: no move
--
-- Removes a principal's role, if the caller may. Nothing changes for a principal without a role.
--
-- KEYS  1 roles       hash    principal -> its role
-- ARGV  1 root        prefix of every key of the shard
--       2 principal   whose role is removed
--       3 events      maximum length of the events stream
--       4 who         JSON {by, may}: the callers, and the roles that may; "" for no check
--       5 request     name of this call; repeated, it returns the first reply and changes nothing
--       6 memo_ms     how long the reply is kept for a repeated call
-- FLAGS allow-oom
-- REPLY OK | FORBIDDEN <principal role>

local roles = KEYS[1]
local root, principal, events = ARGV[1], ARGV[2], ARGV[3]
local who, request, memo_ms = ARGV[4], ARGV[5], ARGV[6]

local kept = calls.remembered(root, request)
if kept then
  return kept
end
local refused = who ~= "" and calls.role_refused(root, who)
if refused then
  return { "FORBIDDEN", refused }
end
local role = redis.call("HGET", roles, principal)
if role then
  redis.call("HDEL", roles, principal)
  event.emit(root, events, "role.dropped", principal, role)
end
return calls.remember(root, request, memo_ms, { "OK" })
