-- revive: DEAD_LETTERED -> READY | PENDING
--
-- Gives a dead task a new life: attempts start again, its failures stay. With `def` it comes back
-- changed; with `delay` it waits first. A DAG that is just being given up must be so first. Where
-- it waits for more parents than a page they are told in steps: `unfinished` names it until then,
-- and it cannot run.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 life        the life that the reviewer saw: a call sent again finds the next one;
--                     "" to go on with what was begun
--       4 def         "" or the changed definition
--       5 delay       ms to wait first; 0: none
--       6 tries       how many parked claims may be looked at
--       7 events      length of the events stream
--       8 steps       how many edges are followed to find a circle
--       9 page        how many parents are looked at in this call
-- TOUCHES task:<id> def:<id> dead deadlines delayed blocked waits:<id> dependents:<id> lane:<n>
--       stats heirs:<id> gather:<id> idem:<sha> ext:<sha> events dag:<dag> held:<dag> unfinished
--       cancelling + what line_up and answer_waiting touch
-- REPLY OK <0; 1: claims are left to answer; 2: parents are left to tell> <state> | GONE
--       | STATE <found> | EXISTS <holder> | PARENT <id> | CLOSING <dag> | CYCLE <id> | FAR <id>

-- @include now_ms
-- @include task_row
-- @include is_visible
-- @include freeing
-- @include free_task
-- @include enter_indexes
-- @include block_task
-- @include wait_task
-- @include revive_dag
-- @include waits_again
-- @include note_parents rarely
-- @include emit_ready
-- @include named_already
-- @include begin_life
-- @include count
-- @include answer_touched

local root, task, life, def = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local delay, tries, events = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local steps, page = tonumber(ARGV[8]), tonumber(ARGV[9])

local now, key, row = now_ms(), root .. "task:" .. task, task_row(root, task)
local how = freeing(1)
if not row.state or not is_visible(root, row) then
  return { "GONE" }
elseif not life or row.more.life == life + 1 then
  local left = note_parents(root, task, row, page, how)
  enter_indexes(root, how)
  emit_ready(root, events, how.readied)
  local more = answer_touched(root, now, how.touched, tries)
  return { "OK", left and 2 or more and 1 or 0, redis.call("HGET", key, "state") }
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
local open, refused, many = waits_again(root, task, row.more.trigger, steps, page)
if refused then
  return refused
end
local namesake = named_already(root, row.more.ext, task)
if namesake then
  return { "EXISTS", namesake }
end

revive_dag(root, now, task, row.flags, events)
begin_life(root, now, task, row, def, events)
if not many then
  redis.call("HDEL", key, "parents")
end
if delay > 0 or #open > 0 or many then
  local due = delay > 0 and now + delay or nil
  if many then
    redis.call("SADD", root .. "waits:" .. task, "@parents")
    redis.call("HSET", root .. "unfinished", "revive " .. task, 0)
  end
  block_task(root, task, open, due, row.more.trigger)
  wait_task(root, now, task, due)
  redis.call("HSET", key, "state", "PENDING", unpack(due and { "due", due } or {}))
  count(root, row.lane, "PENDING", 1)
  return { "OK", many and 2 or 0, "PENDING" }
end
free_task(root, task, row.lane, row.score, how, row.flags)
enter_indexes(root, how)
local unanswered = answer_touched(root, now, how.touched, tries)
return { "OK", unanswered and 1 or 0, "READY" }
