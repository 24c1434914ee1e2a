-- observe: no move
--
-- The reaper remembers a look at the server. A script, so that a full server takes it too.
--
-- KEYS  1 reaper      hash    what the reaper saw last
-- ARGV  1 at_ms       the server's time then
--       2 run_id      which run of the server it was
--       3 hold_ms     until when nothing is reclaimed, server's time
-- FLAGS allow-oom
-- REPLY OK

local reaper = KEYS[1]
local at_ms, run_id, hold_ms = ARGV[1], ARGV[2], ARGV[3]

redis.call("HSET", reaper, "at_ms", at_ms, "run_id", run_id, "hold_until_ms", hold_ms)
return { "OK" }
