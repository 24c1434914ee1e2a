-- yield: no move
--
-- Ends the leadership of the shard immediately, if it still belongs to the owner.
--
-- KEYS  1 leader      hash    owner, epoch, until_ms, ttl_ms
-- ARGV  1 owner       the caller
-- FLAGS allow-oom
-- REPLY OK | LOST

local leader = KEYS[1]
local owner = ARGV[1]

if redis.call("HGET", leader, "owner") ~= owner then
  return { "LOST" }
end
redis.call("HSET", leader, "until_ms", 0)
return { "OK" }
