-- leave: no move
--
-- Says that this queue has no archive any more. Not while something waits for it: that would never
-- be archived, and never expire.
--
-- KEYS  1 archiving   string  how many ended tasks may wait for the archive
--       2 outbox      stream  what has ended
-- FLAGS allow-oom
-- REPLY OK | FULL <entries that wait>

local archiving, outbox = KEYS[1], KEYS[2]

local waiting = redis.call("XLEN", outbox)
if waiting > 0 then
  return { "FULL", waiting }
end
redis.call("DEL", archiving)
return { "OK" }
