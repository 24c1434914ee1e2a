-- fail: CLAIMED | RUNNING | VALIDATING -> FAILED | RETRYING | DEAD_LETTERED
--
-- Ends attempts that failed, as the policy decided: again after a delay, or dead. FAILED is
-- passed through: what stays of it is the attempt's record and the event.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 archive     1: what ends goes to the outbox
--       3 keep        attempt records kept for each task
--       4 events      length of the events stream
--       5 tries       how many parked claims may be looked at
--       6 woken       how many gates and accounts are looked at that were freed
--       7 back        how many tasks return at most that their DAGs could not pay
-- EACH  task          its id
--       token         the claim's token
--       delay         ms until the next attempt; "" for dead
--       attempts      failed attempts, this one included if it is spent
--       reclaims      losses so far
--       reason        word of the taxonomy
--       record        JSON of the attempt; "" for none
--       type          whose breaker it is
--       breaker       "" where this does not count, else "<threshold> <half_open_ms> <cooldown_ms>"
--                     or "probe <cooldown_ms>" where it counts as the probe of its type alone
--       failed_by     names of the workers that have failed it, opaque here; "" to leave them
--       poison        1: dead because it fails wherever it runs; else ""
--       owes          1: its code may go on, and say later what it has cost; else ""
-- FLAGS allow-oom
-- REPLY OK <more> [RETRYING | DEAD_LETTERED | LOST]...

local root, archive, keep, events = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local most = { tries = tonumber(ARGV[5]), woken = ARGV[6], back = tonumber(ARGV[7]) }
local first, stride = 8, 12

local now, reply = values.now_ms(), { "OK", 0 }
archive = calls.has_archive(root, archive)
local how = { archive = archive, keep = keep, events = events, ended = {}, touched = {} }
for at = first, #ARGV, stride do
  local id, token = ARGV[at], ARGV[at + 1]
  local held, row = lease.held(root, id, token)
  if held then
    how.freed = true
    if ARGV[at + 11] == "1" and row[1] ~= "CLAIMED" then
      late.owe(root, id, token)
    end
    reply[#reply + 1] = fail.attempt(root, now, id, row, { delay = ARGV[at + 2],
      attempts = ARGV[at + 3], reclaims = ARGV[at + 4], reason = ARGV[at + 5],
      record = ARGV[at + 6], failed_by = ARGV[at + 9], poison = ARGV[at + 10],
      settled = "fail " .. token }, how)
    breaker.trip(root, now, ARGV[at + 7], ARGV[at + 8], id .. " " .. token, events)
  elseif calls.settled_by(root, id, token, "fail") then
    reply[#reply + 1] = ARGV[at + 2] == "" and "DEAD_LETTERED" or "RETRYING"
  else
    reply[#reply + 1] = "LOST"
  end
end
status.write_tallies(root, now, how)
event.send_to_outbox(root, archive, how.ended)
if answer.freed(root, now, how, most) then
  reply[2] = 1
end
return reply
