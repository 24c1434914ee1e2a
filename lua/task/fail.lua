-- fail: CLAIMED | RUNNING | VALIDATING -> FAILED | RETRYING | DEAD_LETTERED
--
-- Ends failed attempts as the policy decided: the task is retried after a delay, or dead. FAILED is
-- only passed through: the record of the attempt and the event are what remains of it.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 archive     1: ended tasks go to the outbox
--       3 keep        how many attempt records are kept for each task
--       4 events      length of the events stream
--       5 tries       how many waiting claims are tried at most
--       6 woken       how many freed gates and accounts are checked at most
--       7 back        how many unpaid tasks of DAGs return to their lanes at most
-- EACH  task          its id
--       token         the claim's token
--       delay         ms until the next attempt; "" for dead
--       attempts      failed attempts, this one included if it is spent
--       reclaims      leases lost so far
--       reason        word of the failure taxonomy
--       record        JSON of the attempt; "" for none
--       type          the type whose breaker counts the attempt
--       breaker       "" where this does not count, else "<threshold> <half_open_ms> <cooldown_ms>"
--                     or "probe <cooldown_ms>" where it counts only as the probe of its type
--       failed_by     names of the workers on which it failed, opaque here; "" leaves them
--                     unchanged
--       poison        1: dead because it fails on every worker; else ""
--       owes          1: its code may continue and report its cost later; else ""
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
      late.expect_report(root, id, token)
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
