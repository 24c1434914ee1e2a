-- collect: no move
--
-- Hands an archiver entries of the outbox, oldest first: those it holds already, else those of
-- archivers that have fallen silent, else new ones. Sent again it hands out the same. Where there
-- is nothing to hand out, archivers that are silent and hold nothing are forgotten. How large an
-- entry is shows when it is read: that of a dead task has all that is kept of it.
--
-- KEYS  1 outbox      stream  what has ended
-- ARGV  1 group       the consumer group
--       2 archiver    the consumer that asks
--       3 idle_ms     how long silent at least
--       4 limit       how many entries at most
--       5 max_bytes   new ones that have so many together are enough
--       6 step        how many new ones are read at once
-- FLAGS allow-oom
-- REPLY OK [[entry, [task, value, ...]], ...]

local outbox = KEYS[1]
local group, archiver, idle_ms, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local max_bytes, step = tonumber(ARGV[5]), tonumber(ARGV[6])

if redis.call("EXISTS", outbox) == 0 then
  return { "OK", {} }
end
streams.ensure_group(outbox, group)
local found = streams.held_entries(outbox, group, archiver, { idle_ms = idle_ms, limit = limit })
local held, size = #found > 0, 0
while not held and #found < limit and size < max_bytes do
  local new = redis.call("XREADGROUP", "GROUP", group, archiver, "COUNT",
    math.min(step, limit - #found), "STREAMS", outbox, ">")
  if not new then
    break
  end
  for _, entry in ipairs(new[1][2]) do
    found[#found + 1] = entry
    for _, word in ipairs(entry[2]) do
      size = size + #word
    end
  end
end
if #found == 0 then
  streams.forget_readers(outbox, group, archiver, idle_ms)
end
return { "OK", found }
