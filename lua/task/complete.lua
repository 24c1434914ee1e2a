-- complete: RUNNING | VALIDATING -> COMPLETED
--
-- Ends tasks whose handlers returned. Only the holder of the lease may; the same token again
-- gets the same answer.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
--       2 archive     1: what ends goes to the outbox and is kept until it is archived
--       3 ttl         how long an ended task is kept, ms
--       4 limit       dependents told in this call, for each task
--       5 tries       how many parked claims may be looked at
-- EACH  task          its id
--       token         the claim's token
--       result        encoded result, stored as it is; "" for none
-- TOUCHES task:<id> def:<id> result:<id> failures:<id> stats outbox idem:<sha> ext:<sha>
--       tag:<t> deadlines watchers:<id> mail:<box> dependents:<id> waits:<id> unblocking
--       blocked lane:<n> + what answer_waiting touches
-- FLAGS allow-oom
-- REPLY OK <more> [OK | LOST | STATE:<found>]...

-- @include now_ms
-- @include lease_held
-- @include complete_task
-- @include free_entries
-- @include send_to_outbox
-- @include count
-- @include answer_touched

local root, archive, ttl, limit, tries = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local first, stride = 6, 3

local now, reply = now_ms(), { "OK", 0 }
local finished = string.format("%.0f", now)
local how = { archive = archive == "1", ttl = ttl, limit = limit, touched = {}, lanes = {},
  entries = {}, ended = {} }
for at = first, #ARGV, stride do
  local id, token = ARGV[at], ARGV[at + 1]
  local held, row = lease_held(root, id, token)
  local word = "OK"
  if held and row[1] == "CLAIMED" then
    word = "STATE:CLAIMED"
  elseif held then
    complete_task(root, finished, id, row, ARGV[at + 2], how)
  elseif row[1] ~= "COMPLETED" or row[2] ~= token then
    word = "LOST"
  end
  reply[#reply + 1] = word
end

if #how.entries > 0 then
  free_entries(root, how.entries)
  send_to_outbox(root, archive, how.ended)
end
for lane, states in pairs(how.lanes) do
  local done = 0
  for state, number in pairs(states) do
    count(root, lane, state, -number)
    done = done + number
  end
  count(root, lane, "COMPLETED", done)
end
if answer_touched(root, now, how.touched, tries) then
  reply[2] = 1
end
return reply
