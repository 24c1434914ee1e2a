-- run_now: RETRYING | PENDING -> READY
--
-- Ends a task's waiting for its time. One that waits for parents as well goes on waiting for
-- them.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 request     names this call: sent again, it is answered as before and changes nothing
--       4 tries       how many parked claims may be looked at
--       5 events      length of the events stream
--       6 memo_ms     how long that is remembered
-- TOUCHES task:<id> delayed waits:<id> blocked lane:<n> dag:<dag> held:<dag> stats events
--       noticed notices req:<request> + what line_up and answer_waiting touch
-- FLAGS allow-oom
-- REPLY OK <more> <1: it waited for its time> | GONE | STATE <found>

-- @include now_ms
-- @include answered
-- @include keep_answer
-- @include is_waiting
-- @include is_visible
-- @include freeing
-- @include promote_task
-- @include enter_indexes
-- @include emit_ready
-- @include answer_touched

local root, task, request, tries = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local events, memo_ms = ARGV[5], ARGV[6]

local kept = answered(root, request)
local row = redis.call("HMGET", root .. "task:" .. task, "state", "flags")
if kept then
  return kept
elseif not row[1] or not is_visible(root, { state = row[1], flags = row[2] }) then
  return { "GONE" }
elseif not is_waiting(row[1]) then
  return { "STATE", row[1] }
elseif not redis.call("ZSCORE", root .. "delayed", task) then
  return keep_answer(root, request, memo_ms, { "OK", 0, 0 })
end

local how = freeing(1)
promote_task(root, task, how)
enter_indexes(root, how)
emit_ready(root, events, how.readied)
local more = answer_touched(root, now_ms(), how.touched, tries)
return keep_answer(root, request, memo_ms, { "OK", more and 1 or 0, 1 })
