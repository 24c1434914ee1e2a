-- reschedule: PENDING | READY | RETRYING -> PENDING | RETRYING
--
-- Makes a waiting task wait until another time.
--
-- KEYS  1 ready       stream  the entry of the task, if it has one, is deleted
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 delay       ms from now; "" where `at` is given
--       4 at          instant in ms; "" where `delay` is given
--       5 request     names this call: a repetition gets the same reply and changes nothing
--       6 memo_ms     how long that reply is kept
-- FLAGS allow-oom
-- REPLY OK <due> | GONE | STATE <found>

local root, task, delay, at = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local request, memo_ms = ARGV[5], ARGV[6]

local now, row = values.now_ms(), tasks.read(root, task)
local kept = calls.remembered(root, request)
if kept then
  return kept
elseif not row.state or not tasks.is_visible(root, row) then
  return { "GONE" }
elseif not tasks.is_waiting(row.state) then
  return { "STATE", row.state }
end
local due = at ~= "" and tonumber(at) or now + delay
indexes.delay(root, now, task, row, due)
return calls.remember(root, request, memo_ms, { "OK", due })
