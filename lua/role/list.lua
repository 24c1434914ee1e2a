-- list: no move
--
-- Returns every principal that has a role, and the role.
--
-- KEYS  1 roles       hash    principal -> its role
-- ARGV  1 root        prefix of every key of the shard
-- FLAGS no-writes allow-oom
-- REPLY OK [principal, role, ...]

local roles = KEYS[1]

return { "OK", redis.call("HGETALL", roles) }
