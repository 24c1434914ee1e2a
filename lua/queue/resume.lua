-- resume: no move
--
-- Ends a pause and answers those who wait for what was held back.
--
-- KEYS  1 paused      set     what is paused
-- ARGV  1 root        prefix of every key of the shard
--       2 what        queue, type=<type> or lane=<number>
--       3 lanes       JSON [number, ...]: the lanes that this opens
--       4 tries       how many parked claims may be looked at
-- TOUCHES what answer_waiting touches
-- FLAGS allow-oom
-- REPLY OK <more>

-- @include now_ms
-- @include answer_lanes

local paused = KEYS[1]
local root, what, lanes, tries = ARGV[1], ARGV[2], cjson.decode(ARGV[3]), tonumber(ARGV[4])

redis.call("SREM", paused, what)
return { "OK", answer_lanes(root, now_ms(), lanes, tries) and 1 or 0 }
