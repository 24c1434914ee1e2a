-- exchange: no move
--
-- The main loop of a worker in one round trip: completes finished tasks, then fills the free slots.
-- Its moves are those of complete and of claim; a repetition gets the same replies from both.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
--       2 waiter      the claiming client; the `seq` of its claims rises
--       3 seq         number of this claim of the client
--       4 consumer    the worker that will own the leases
--       5 bits        128 random bits: token = <epoch>:<bits>
--       6 n           free slots
--       7 version     the lane version that `lanes` was made from
--       8 lanes       JSON [[number, rate, ...], ...] the worker may serve, see lua/task/claim.lua
--       9 profile     name of that set of lanes
--      10 box         mailbox for the answer to a waiting claim
--      11 wait_ms     how long to wait if there is nothing to claim; 0: not at all
--      12 delivery_ms  within how many ms a delivered task must be started
--      13 archive     1: ended tasks go to the outbox and are kept until they are archived
--      14 ttl         how long an ended task is kept, ms
--      15 limit       how many dependents are resolved in this call
--      16 tries       how many waiting claims are tried at most
--      17 begin       how many of the `n` tasks start at once; the others are RUNNING too but wait
--                     for a slot, and spend no attempt when the worker is lost before they start
--      18 events      length of the events stream
-- EACH  task          its id
--       token         the claim's token
--       result        encoded result, stored unchanged; "" for none
-- FLAGS allow-oom
-- REPLY OK [OK <more> [OK | LOST | STATE:<found>]...] [the reply of claim] <now>

local root, words = ARGV[1], { "OK", 0 }
local now, at = values.now_ms()
local how = { archive = ARGV[13], ttl = ARGV[14], limit = ARGV[15], tries = tonumber(ARGV[16]),
  events = ARGV[18] }
if #ARGV > 18 and complete.many(root, ARGV, now, at, 19, how, words) then
  words[2] = 1
end
local claimed = waiting.claim(root, now, { waiter = ARGV[2], seq = ARGV[3], consumer = ARGV[4],
  bits = ARGV[5], n = tonumber(ARGV[6]), started = true, version = ARGV[7], lanes = ARGV[8],
  profile = ARGV[9], box = ARGV[10], wait_ms = tonumber(ARGV[11]), delivery_ms = ARGV[12],
  memo_ms = "0", begin = tonumber(ARGV[17]), at = at })
return { "OK", words, claimed, at }
