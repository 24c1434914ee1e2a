-- reschedule: PENDING | READY | RETRYING -> PENDING | RETRYING
--
-- Lets a waiting task wait until another time.
--
-- KEYS  1 ready       stream  its entry, if it has one, goes
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 delay       ms from now; "" where `at` says it
--       4 at          instant in ms; "" where `delay` says it
--       5 request     names this call: sent again, it is answered as before and changes nothing
--       6 memo_ms     how long that is remembered
-- TOUCHES task:<id> lane:<n> delayed blocked waits:<id> stats req:<request>
--       + what line_up touches
-- FLAGS allow-oom
-- REPLY OK <due> | GONE | STATE <found>

-- @include now_ms
-- @include answered
-- @include keep_answer
-- @include task_row
-- @include is_waiting
-- @include is_visible
-- @include delay_task

local root, task, delay, at = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local request, memo_ms = ARGV[5], ARGV[6]

local now, row = now_ms(), task_row(root, task)
local kept = answered(root, request)
if kept then
  return kept
elseif not row.state or not is_visible(root, row) then
  return { "GONE" }
elseif not is_waiting(row.state) then
  return { "STATE", row.state }
end
local due = at ~= "" and tonumber(at) or now + delay
delay_task(root, now, task, row, due)
return keep_answer(root, request, memo_ms, { "OK", due })
