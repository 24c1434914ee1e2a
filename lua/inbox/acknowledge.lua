-- acknowledge: no move
--
-- The tasks of these inbox entries are in the queue: the entries go, and what was refused of them
-- is kept, cut to a bound. An entry that is gone already was told of before: nothing happens.
--
-- KEYS  1 inbox       stream  what producers wrote with plain XADD
--       2 rejected    stream  what was refused
-- ARGV  1 group       the consumer group
--       2 keep        how many refusals are kept, about
-- EACH  entry         id of an inbox entry; as many rows as it has refusals, one where it has none
--       at            which task of the entry, "" for the entry as a whole
--       reason        why it was refused, "" where nothing was
--       form          the form that the entry names
--       cut           1 where the text is only the beginning, else 0
--       task          the text of the task
-- FLAGS allow-oom
-- REPLY OK <entries>

local inbox, rejected = KEYS[1], KEYS[2]
local group, keep = ARGV[1], ARGV[2]
local first, stride = 3, 6

local gone, count = {}, 0
for at = first, #ARGV, stride do
  local entry = ARGV[at]
  if gone[entry] == nil then
    gone[entry] = redis.call("XDEL", inbox, entry) == 1
    redis.call("XACK", inbox, group, entry)
    count = count + (gone[entry] and 1 or 0)
  end
end
for at = first, #ARGV, stride do
  if gone[ARGV[at]] and ARGV[at + 2] ~= "" then
    redis.call("XADD", rejected, "MAXLEN", "~", keep, "*", "entry", ARGV[at], "at", ARGV[at + 1],
      "reason", ARGV[at + 2], "form", ARGV[at + 3], "cut", ARGV[at + 4], "task", ARGV[at + 5])
  end
end
return { "OK", count }
