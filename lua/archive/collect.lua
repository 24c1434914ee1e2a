-- collect: no move
--
-- Returns outbox entries to an archiver, oldest first: those it holds already, else those of
-- archivers that have been silent for `idle_ms`, else new ones. A repeated call returns the same
-- entries. Where there are none, silent archivers that hold nothing are removed from the group. The
-- size of an entry is known only after it is read: the entry of a dead task contains a snapshot of
-- the task.
--
-- KEYS  1 outbox      stream  ended tasks for the archive
-- ARGV  1 group       the consumer group
--       2 archiver    the calling consumer
--       3 idle_ms     how long an archiver must be silent before its entries are taken over
--       4 limit       how many entries at most
--       5 max_bytes   no more new entries are read after this many bytes
--       6 step        how many new entries are read at a time
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
