-- receive: no move
--
-- Hands a reader entries of the inbox, oldest first: those it holds already, else those of readers
-- that have fallen silent, else, if nobody else holds any, new ones: a task may depend on one
-- before it. Sent again it hands out the same. What a reader leaves for later it names by the last
-- of it. Where there is nothing to hand out, readers that are silent and hold nothing are
-- forgotten.
--
-- KEYS  1 inbox       stream  what producers wrote with plain XADD
-- ARGV  1 group       the consumer group
--       2 reader      the consumer that asks
--       3 idle_ms     how long silent at least
--       4 limit       how many entries at most
--       5 max_bytes   of a longer name or value, one byte more than this is handed out
--       6 after       of those it holds already, only what comes after this entry
-- FLAGS allow-oom
-- REPLY OK <entry after which there is something new to ask for> [[entry, name, value, ...]]...

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
