-- set: no move
--
-- Gives a principal a role, which the scripts that create tasks look up. Sent again it changes
-- nothing.
--
-- KEYS  1 roles       hash    principal -> its role
-- ARGV  1 root        prefix of every key of the shard
--       2 principal   who
--       3 role        what it is from now on
--       4 events      length of the events stream
-- TOUCHES events
-- FLAGS allow-oom
-- REPLY OK

-- @include emit

local roles = KEYS[1]
local root, principal, role, events = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call("HGET", roles, principal) ~= role then
  redis.call("HSET", roles, principal, role)
  emit(root, events, "role.set", principal, role)
end
return { "OK" }
