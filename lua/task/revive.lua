-- revive: DEAD_LETTERED -> READY | PENDING
--
-- Gives a dead task a new life: attempts start again, its failures stay. With `def` it comes back
-- changed; with `delay` it waits first. A DAG that is just being given up must be so first.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 life        the life that the reviewer saw: a call sent again finds the next one
--       4 def         "" or the changed definition
--       5 delay       ms to wait first; 0: none
--       6 tries       how many parked claims may be looked at
--       7 events      length of the events stream
--       8 steps       how many edges are followed to find a circle
-- TOUCHES task:<id> def:<id> dead deadlines delayed blocked waits:<id> dependents:<id> lane:<n>
--       stats heirs:<id> gather:<id> idem:<sha> ext:<sha> events dag:<dag> held:<dag> unfinished
--       cancelling + what answer_waiting touches
-- REPLY OK <more> <state> | GONE | STATE <found> | EXISTS <holder> | PARENT <id> | CLOSING <dag>
--       | CYCLE <id>

-- @include now_ms
-- @include task_row
-- @include freeing
-- @include free_task
-- @include enter_indexes
-- @include block_task
-- @include wait_task
-- @include revive_dag
-- @include waits_again
-- @include named_already
-- @include begin_life
-- @include count
-- @include answer_touched

local root, task, life, def = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local delay, tries, events, steps = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]

local key, row = root .. "task:" .. task, task_row(root, task)
if not row.state then
  return { "GONE" }
elseif row.more.life == life + 1 then
  return { "OK", 0, row.state }
elseif row.state ~= "DEAD_LETTERED" or (row.more.life or 1) ~= life then
  return { "STATE", row.state }
end
local dag = dag_of(row.flags)
if dag and redis.call("HEXISTS", root .. "unfinished", "cancel " .. dag) == 1 then
  return { "CLOSING", dag }
end
local holder = row.more.idem and redis.call("GET", root .. "idem:" .. row.more.idem)
local other = holder and redis.call("HGET", root .. "task:" .. holder, "state")
if other and other ~= "COMPLETED" then
  return { "EXISTS", holder }
end
local open, refused = waits_again(root, task, row.more.trigger, steps)
if refused then
  return refused
end
local namesake = named_already(root, row.more.ext, task)
if namesake then
  return { "EXISTS", namesake }
end

local now = now_ms()
revive_dag(root, now, task, row.flags, events)
begin_life(root, now, task, row, def, events)
if delay > 0 or #open > 0 then
  local due = delay > 0 and now + delay or nil
  block_task(root, task, open, due, row.more.trigger)
  wait_task(root, now, task, due)
  redis.call("HSET", key, "state", "PENDING", unpack(due and { "due", due } or {}))
  count(root, row.lane, "PENDING", 1)
  return { "OK", 0, "PENDING" }
end
local how = freeing(1)
free_task(root, task, row.lane, row.score, how, row.flags)
enter_indexes(root, how)
local unanswered = answer_touched(root, now, how.touched, tries)
return { "OK", unanswered and 1 or 0, "READY" }
