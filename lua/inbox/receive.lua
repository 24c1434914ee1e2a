-- receive: no move
--
-- Returns inbox entries to a reader, oldest first: those it holds already, else those of readers
-- that have been silent for `idle_ms`, else new ones. New ones are returned only while no other
-- reader holds any, because a task may depend on an earlier one. A repeated call returns the same
-- entries. A reader that postpones entries passes the last of them in `after`. Where there is
-- nothing to return, silent readers that hold nothing are removed from the group.
--
-- KEYS  1 inbox       stream  what producers wrote with plain XADD
-- ARGV  1 group       the consumer group
--       2 reader      the calling consumer
--       3 idle_ms     how long a reader must be silent before its entries are taken over
--       4 limit       how many entries at most
--       5 max_bytes   a longer name or value is cut to one byte more than this
--       6 after       of the entries that it holds, only those after this one
-- FLAGS allow-oom
-- REPLY OK <entry; a later one is a reason to call again> [[entry, name, value, ...]]...

local inbox = KEYS[1]
local group, reader, idle_ms, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local max_bytes, after = tonumber(ARGV[5]), ARGV[6]

if redis.call("EXISTS", inbox) == 0 then
  return { "OK", "0-0" }
end
local last = streams.ensure_group(inbox, group)
local entries = streams.inbox_entries(inbox, group, reader,
  { idle_ms = idle_ms, limit = limit, after = after })
local reply = { "OK", entries.last or last }
for _, entry in ipairs(entries) do
  local row = { entry[1] }
  for _, word in ipairs(entry[2]) do
    row[#row + 1] = #word > max_bytes and string.sub(word, 1, max_bytes + 1) or word
  end
  reply[#reply + 1] = row
end

if #entries == 0 then
  streams.forget_readers(inbox, group, reader, idle_ms)
end
return reply
