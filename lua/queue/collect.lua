-- collect: no move
--
-- Hands an archiver entries of the outbox, oldest first: those it holds already, else those of
-- archivers that have fallen silent, else new ones. Sent again it hands out the same. Where there
-- is nothing to hand out, archivers that are silent and hold nothing are forgotten.
--
-- KEYS  1 outbox      stream  what has ended
-- ARGV  1 group       the consumer group
--       2 archiver    the consumer that asks
--       3 idle_ms     how long silent at least
--       4 limit       how many entries at most
-- FLAGS allow-oom
-- REPLY OK [[entry, [task, value, ...]], ...]

-- @include ensure_group
-- @include held_entries
-- @include forget_readers

local outbox = KEYS[1]
local group, archiver, idle_ms, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call("EXISTS", outbox) == 0 then
  return { "OK", {} }
end
ensure_group(outbox, group)
local found = held_entries(outbox, group, archiver, { idle_ms = idle_ms, limit = limit })
if #found == 0 then
  local new = redis.call("XREADGROUP", "GROUP", group, archiver, "COUNT", limit,
    "STREAMS", outbox, ">")
  found = new and new[1][2] or {}
end
if #found == 0 then
  forget_readers(outbox, group, archiver, idle_ms)
end
return { "OK", found }
