-- pause: no move
--
-- Nothing of the queue, type or lane is handed out until it is resumed. What runs goes on.
--
-- KEYS  1 paused      set     what is paused
-- ARGV  1 what        queue, type=<type> or lane=<number>
-- FLAGS allow-oom
-- REPLY OK

local paused = KEYS[1]
local what = ARGV[1]

redis.call("SADD", paused, what)
return { "OK" }
