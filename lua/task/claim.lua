-- claim: READY -> CLAIMED | RUNNING
--
-- Leases to a worker the best tasks that it may serve, in exact effective order. Where there is
-- nothing to claim and time to wait, the claim waits: the call that makes a task claimable writes
-- the answer to its mailbox. A repetition with the same `seq` only reads: it returns what the claim
-- was given and still holds.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
--       2 waiter      the claiming client; the `seq` of its claims rises
--       3 seq         number of this claim of the client
--       4 consumer    the worker that will own the leases
--       5 bits        128 random bits: token = <epoch>:<bits>
--       6 n           free slots
--       7 start       1: the tasks become RUNNING at once, earlier deliveries too
--       8 version     the lane version that `lanes` was made from
--       9 lanes       JSON [[number, rate, type, exclusive_ms, limits, rules], ...] to serve;
--                     rules of a lane of tenants: {name, fair, step, steps, each, own, most}:
--                     whether tenants take turns, how far a turn moves a tenant, the limits of each
--                     and of single ones, and how many of them one claim checks
--      10 profile     name of that set of lanes
--      11 box         mailbox for the answer to a waiting claim
--      12 wait_ms     how long to wait if there is nothing to claim; 0: not at all
--      13 delivery_ms  within how many ms a delivered task must be started
--      14 memo_ms     how long the memo is kept; 0: without expiry
-- FLAGS allow-oom
-- REPLY OK <version> <wait_ms> [row]... | STALE | LANES <version> [signature number]...

local now, at = values.now_ms()
return waiting.claim(ARGV[1], now, { waiter = ARGV[2], seq = ARGV[3], consumer = ARGV[4],
  bits = ARGV[5], n = tonumber(ARGV[6]), started = ARGV[7] == "1", version = ARGV[8],
  lanes = ARGV[9], profile = ARGV[10], box = ARGV[11], wait_ms = tonumber(ARGV[12]),
  delivery_ms = ARGV[13], memo_ms = ARGV[14], at = at })
