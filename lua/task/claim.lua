-- claim: READY -> CLAIMED | RUNNING
--
-- Gives a worker the best tasks it may serve, in exact effective order, as leases. With nothing
-- left to give and time to wait, the claim is parked: whoever brings work answers it by mail.
-- Sent again with its `seq`, it is a pure read of what it gave and is still held.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
--       2 waiter      who asks: one conversation with a rising seq
--       3 seq         number of this claim in it
--       4 consumer    the worker that will own the leases
--       5 bits        128 random bits: token = <epoch>:<bits>
--       6 n           free slots
--       7 start       1: hand them out RUNNING, those that were mailed before too
--       8 version     the lane version that `lanes` was made from
--       9 lanes       JSON [[number, rate, type, alone, limits, rules], ...] the worker may serve;
--                     rules of a lane of keys: {name, fair, step, steps, each, own, most}: whether
--                     keys have turns, how far a turn of one is, the limits of each and of single
--                     ones, and how many of them one claim looks at
--      10 profile     name of that set of lanes
--      11 box         where mail for this waiter goes
--      12 wait_ms     how long to wait when there is nothing; 0: not at all
--      13 delivery_ms  how soon a mailed task must be started
--      14 memo_ms     how long the memo is kept; 0: for ever
-- FLAGS allow-oom
-- REPLY OK <version> <wait_ms> [row]... | STALE | LANES <version> [signature number]...

local now, at = values.now_ms()
return waiting.claim(ARGV[1], now, { waiter = ARGV[2], seq = ARGV[3], consumer = ARGV[4],
  bits = ARGV[5], n = tonumber(ARGV[6]), started = ARGV[7] == "1", version = ARGV[8],
  lanes = ARGV[9], profile = ARGV[10], box = ARGV[11], wait_ms = tonumber(ARGV[12]),
  delivery_ms = ARGV[13], memo_ms = ARGV[14], at = at })
