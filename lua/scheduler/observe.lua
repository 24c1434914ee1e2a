-- observe: no move
--
-- Records a check of the server by the reaper. It is a move, so that a server whose memory is full
-- accepts it.
--
-- KEYS  1 reaper      hash    the reaper's last check
-- ARGV  1 at_ms       server time of the check
--       2 run_id      run id of the server
--       3 hold_ms     until when nothing is reclaimed, in server time
-- FLAGS allow-oom
-- REPLY OK

local reaper = KEYS[1]
local at_ms, run_id, hold_ms = ARGV[1], ARGV[2], ARGV[3]

redis.call("HSET", reaper, "at_ms", at_ms, "run_id", run_id, "hold_until_ms", hold_ms)
return { "OK" }
