-- reap: CLAIMED | RUNNING | VALIDATING -> FAILED | READY | RETRYING | DEAD_LETTERED
--
-- Ends leases of workers that stopped renewing them. The idle time is checked again here: a lease
-- renewed meanwhile is HELD. A task that is only CLAIMED becomes READY again without spending an
-- attempt; the others end as the policy decided, and are exclusive at their next claim.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 idle_ms     how long a lease must have been idle
--       3 archive     1: ended tasks go to the outbox
--       4 keep        how many attempt records are kept for each task
--       5 events      length of the events stream
--       6 tries       how many waiting claims are tried at most
--       7 max_lanes   how many lanes the shard may have
-- EACH  task          its id
--       token         the token that the decision is based on
--       delay         ms until the next attempt; "" for dead
--       attempts      failed attempts, this one included if it is spent
--       reclaims      leases lost so far, this one included
--       reason        word of the failure taxonomy
--       record        JSON of the attempt; "" for none
--       type          the type whose breaker counts the attempt
--       breaker       "" where this does not count, see lua/task/fail.lua
--       failed_by     names of the workers on which it failed; "" leaves them unchanged
--       poison        1: dead because it fails on every worker; else ""
--       exclusive     signature of its lane for exclusive tasks; "" to keep its lane
-- FLAGS allow-oom
-- REPLY OK <more> [READY | RETRYING | DEAD_LETTERED | HELD]...

local ready = KEYS[1]
local root, idle_ms, archive, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local events, tries, max_lanes = ARGV[5], tonumber(ARGV[6]), ARGV[7]
local first, stride = 8, 12

local now, reply = values.now_ms(), { "OK", 0 }
archive = calls.has_archive(root, archive)
local how = { archive = archive, keep = keep, events = events, ended = {},
  touched = {} }
local lost = {}
for at = first, #ARGV, stride do
  local id, token, exclusive_lane = ARGV[at], ARGV[at + 1], ARGV[at + 11]
  local held, row = lease.held(root, id, token)
  local was, entry = row[3], row[4]
  local silent = held and redis.call("XPENDING", ready, "workers", "IDLE", idle_ms, entry, entry, 1)
  if not silent or #silent == 0 then
    reply[#reply + 1] = "HELD"
  elseif row[1] == "CLAIMED" then
    event.note_lost(root, id, silent[1][2], lost, events)
    lease.release(root, id, row, "reap", how)
    reply[#reply + 1] = "READY"
  else
    event.note_lost(root, id, silent[1][2], lost, events)
    late.expect_report(root, id, token)
    reply[#reply + 1] = fail.attempt(root, now, id, row, { delay = ARGV[at + 2],
      attempts = ARGV[at + 3], reclaims = ARGV[at + 4], reason = ARGV[at + 5],
      record = ARGV[at + 6], failed_by = ARGV[at + 9], poison = ARGV[at + 10],
      settled = "reap" }, how)
    breaker.trip(root, now, ARGV[at + 7], ARGV[at + 8], id .. " " .. token, events)
    local lane = exclusive_lane ~= ""
      and lanes.number_of(root, { signature = exclusive_lane }, max_lanes, now)
    if lane and lane ~= was then
      redis.call("HSET", root .. "task:" .. id, "lane", lane)
      lanes.count(root, was, reply[#reply], -1)
      lanes.count(root, lane, reply[#reply], 1)
    end
  end
end
event.emit_lost(root, now - idle_ms, lost, events)
status.write_tallies(root, now, how)
event.send_to_outbox(root, archive, how.ended)
if answer.touched(root, now, how.touched, tries) then
  reply[2] = 1
end
return reply
