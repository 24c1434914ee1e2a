-- complete: RUNNING | VALIDATING -> COMPLETED
--
-- Ends tasks whose handlers returned. Only the holder of the lease may; the same token again
-- gets the same answer.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
--       2 archive     1: what ends goes to the outbox and is kept until it is archived
--       3 ttl         how long an ended task is kept, ms
--       4 limit       dependents told in this call
--       5 tries       how many parked claims may be looked at
--       6 events      length of the events stream
-- EACH  task          its id
--       token         the claim's token
--       result        encoded result, stored as it is; "" for none
-- FLAGS allow-oom
-- REPLY OK <more> [OK | LOST | STATE:<found>]...

local root, archive, ttl, limit, tries = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local events = ARGV[6]

local now, at = values.now_ms()
local reply = { "OK", 0 }
local how = { archive = archive, ttl = ttl, limit = limit, tries = tries, events = events }
if complete.many(root, ARGV, now, at, 7, how, reply) then
  reply[2] = 1
end
return reply
