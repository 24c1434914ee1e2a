-- complete: RUNNING | VALIDATING -> COMPLETED
--
-- Ends tasks whose handlers returned. Only the holder of the lease may; a repetition with the same
-- token gets the same reply.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
--       2 archive     1: ended tasks go to the outbox and are kept until they are archived
--       3 ttl         how long an ended task is kept, ms
--       4 limit       how many dependents are resolved in this call
--       5 tries       how many waiting claims are tried at most
--       6 events      length of the events stream
-- EACH  task          its id
--       token         the claim's token
--       result        encoded result, stored unchanged; "" for none
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
