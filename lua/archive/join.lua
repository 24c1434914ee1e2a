-- join: no move
--
-- Says that this queue has an archive, until it is left: from now on whatever ends goes to the
-- outbox, whoever ends it.
--
-- KEYS  1 archiving   string  how many ended tasks may wait for the archive
-- ARGV  1 most        how many, 0 for any number
-- FLAGS allow-oom
-- REPLY OK

local archiving = KEYS[1]
local most = ARGV[1]

redis.call("SET", archiving, most)
return { "OK" }
