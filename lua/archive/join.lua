-- join: no move
--
-- Records that this queue has an archive, until `leave`. From now on every move that ends tasks
-- adds them to the outbox, whichever client calls it.
--
-- KEYS  1 archiving   string  how many ended tasks may wait for the archive
-- ARGV  1 most        how many may wait; 0 for any number
-- FLAGS allow-oom
-- REPLY OK

local archiving = KEYS[1]
local most = ARGV[1]

redis.call("SET", archiving, most)
return { "OK" }
