-- acknowledge: no move
--
-- Deletes inbox entries whose tasks are in the queue. What was refused of them is added to a capped
-- stream. An entry that is deleted already was processed before: nothing is added for it.
--
-- KEYS  1 inbox       stream  what producers wrote with plain XADD
--       2 rejected    stream  what was refused
-- ARGV  1 group       the consumer group
--       2 keep        about how many refusals are kept
-- EACH  entry         id of an inbox entry; one row for each of its refusals, one row where it has
--                     none
--       at            which task of the entry, "" for the entry as a whole
--       reason        why it was refused, "" where nothing was
--       form          the form that the entry names
--       cut           1 where the text is truncated, else 0
--       task          the text of the task
-- FLAGS allow-oom
-- REPLY OK <entries>

local inbox, rejected = KEYS[1], KEYS[2]
local group, keep = ARGV[1], ARGV[2]
local first, stride = 3, 6

local deleted, count = {}, 0
for at = first, #ARGV, stride do
  local entry = ARGV[at]
  if deleted[entry] == nil then
    deleted[entry] = redis.call("XDEL", inbox, entry) == 1
    redis.call("XACK", inbox, group, entry)
    count = count + (deleted[entry] and 1 or 0)
  end
end
for at = first, #ARGV, stride do
  if deleted[ARGV[at]] and ARGV[at + 2] ~= "" then
    redis.call("XADD", rejected, "MAXLEN", "~", keep, "*", "entry", ARGV[at], "at", ARGV[at + 1],
      "reason", ARGV[at + 2], "form", ARGV[at + 3], "cut", ARGV[at + 4], "task", ARGV[at + 5])
  end
end
return { "OK", count }
