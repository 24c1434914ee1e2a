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
-- TOUCHES task:<id> def:<id> result:<id> failures:<id> stats outbox idem:<sha> ext:<sha> tag:<t>
--       deadlines watchers:<id> mail:<box> dependents:<id> heirs:<id> waits:<id> unblocking
--       telling cancelling blocked lane:<n> held:<dag> handoffs dag:<dag> unfinished gather:<id>
--       events noticed notices breakers breaker:<type> wakes types crowded hand:<key> full
--       budget:<account> short unpaid:<dag>
--       archiving + what line_up and answer_waiting touch
-- FLAGS allow-oom
-- REPLY OK <more> [OK | LOST | STATE:<found>]...

-- @include now_ms
-- @include has_archive
-- @include complete_tasks

local root, archive, ttl, limit, tries = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local events = ARGV[6]

local reply = { "OK", 0 }
archive = has_archive(root, archive)
local how = { archive = archive, ttl = ttl, limit = limit, tries = tries, events = events }
if complete_tasks(root, now_ms(), 7, how, reply) then
  reply[2] = 1
end
return reply
