-- drop: no move
--
-- Takes a principal's role away. One that has none is left as it is.
--
-- KEYS  1 roles       hash    principal -> its role
-- ARGV  1 root        prefix of every key of the shard
--       2 principal   who
--       3 events      length of the events stream
-- TOUCHES events
-- FLAGS allow-oom
-- REPLY OK

-- @include emit

local roles = KEYS[1]
local root, principal, events = ARGV[1], ARGV[2], ARGV[3]

local role = redis.call("HGET", roles, principal)
if role then
  redis.call("HDEL", roles, principal)
  emit(root, events, "role.dropped", principal, role)
end
return { "OK" }
