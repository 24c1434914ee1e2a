-- reschedule: PENDING | READY | RETRYING -> PENDING | RETRYING
--
-- Lets a waiting task wait until another time.
--
-- KEYS  1 ready       stream  its entry, if it has one, goes
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 delay       ms from now; "" where `at` says it
--       4 at          instant in ms; "" where `delay` says it
-- TOUCHES task:<id> lane:<n> delayed blocked waits:<id> stats + what line_up touches
-- FLAGS allow-oom
-- REPLY OK <due> | GONE | STATE <found>

-- @include now_ms
-- @include task_row
-- @include is_waiting
-- @include is_visible
-- @include delay_task

local root, task, delay, at = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local now, row = now_ms(), task_row(root, task)
if not row.state or not is_visible(root, row) then
  return { "GONE" }
elseif not is_waiting(row.state) then
  return { "STATE", row.state }
end
local due = at ~= "" and tonumber(at) or now + delay
delay_task(root, now, task, row, due)
return { "OK", due }
