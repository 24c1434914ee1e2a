-- answer: no move
--
-- Goes on answering parked claims where one call could not answer them all.
--
-- KEYS  1 lanes       hash    signature -> number
-- ARGV  1 root        prefix of every key of the shard
--       2 numbers     JSON [number, ...]: the lanes to look at
--       3 tries       how many parked claims may be looked at
-- TOUCHES what answer_waiting touches: waiting:<p> profile:<p> profiles:<n> waiter:<w> task:<id>
--       def:<id> lane:<n> ready worker:<id> paused stats handoffs mail:<box> orphans
-- FLAGS allow-oom
-- REPLY OK <more>

-- @include now_ms
-- @include answer_lanes

local root, numbers, tries = ARGV[1], cjson.decode(ARGV[2]), tonumber(ARGV[3])

return { "OK", answer_lanes(root, now_ms(), numbers, tries) and 1 or 0 }
