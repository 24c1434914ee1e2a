-- leave: no move
--
-- Records that this queue has no archive any more. Refuses while tasks wait for the archive: they
-- would never be archived and never expire.
--
-- KEYS  1 archiving   string  how many ended tasks may wait for the archive
--       2 outbox      stream  ended tasks for the archive
-- FLAGS allow-oom
-- REPLY OK | FULL <waiting entries>

local archiving, outbox = KEYS[1], KEYS[2]

local waiting = redis.call("XLEN", outbox)
if waiting > 0 then
  return { "FULL", waiting }
end
redis.call("DEL", archiving)
return { "OK" }
