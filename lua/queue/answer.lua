-- answer: no move
--
-- Continues to answer waiting claims where one call could not answer all of them.
--
-- KEYS  1 lanes       hash    signature -> number
-- ARGV  1 root        prefix of every key of the shard
--       2 numbers     JSON [number, ...]: the lanes to check
--       3 tries       how many waiting claims to check at most
-- FLAGS allow-oom
-- REPLY OK <more> <when the next gate opens, ms, 0 for none>

local root, numbers, tries = ARGV[1], cjson.decode(ARGV[2]), tonumber(ARGV[3])

local now = values.now_ms()
local more = answer.lanes(root, now, numbers, tries)
return { "OK", more and 1 or 0, wake.next_at(root, now) or "0" }
