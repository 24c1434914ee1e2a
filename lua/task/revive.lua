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
--       stats heirs:<id> gather:<id> idem:<sha> ext:<sha> events dag:<dag> unfinished cancelling
--       + what answer_waiting touches
-- REPLY OK <more> <state> | GONE | STATE <found> | EXISTS <holder> | PARENT <id> | CLOSING <dag>
--       | CYCLE <id>

-- @include now_ms
-- @include task_row
-- @include ready_task
-- @include block_task
-- @include wait_task
-- @include revive_dag
-- @include waits_again
-- @include named_already
-- @include write_def
-- @include flag
-- @include count
-- @include emit
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

local now, more = now_ms(), row.more
revive_dag(root, now, task, row.flags, events)
redis.call("ZREM", root .. "dead", task)
redis.call("HDEL", key, "finished", "reason", "why", "settled", "attempts", "reclaims", "parks",
  "due", "parents")
more.life = life + 1
redis.call("HSET", key, "more", cjson.encode(more))
flag(root, task, "m")
if more.deadline and more.deadline > now then
  redis.call("ZADD", root .. "deadlines", more.deadline, task)
end
if more.idem then
  redis.call("SET", root .. "idem:" .. more.idem, task)
end
if more.ext then
  redis.call("SET", root .. "ext:" .. more.ext, task)
end
if def ~= "" then
  write_def(root, task, def)
end
if row.entry then
  redis.call("HSETNX", key, "created", string.match(row.entry, "^%d+"))
  redis.call("HDEL", key, "entry")
end
count(root, row.lane, "DEAD_LETTERED", -1)
emit(root, events, "task.revived", task, tostring(more.life))
if delay > 0 or #open > 0 then
  local due = delay > 0 and now + delay or nil
  block_task(root, task, open, due, more.trigger)
  wait_task(root, now, task, due)
  redis.call("HSET", key, "state", "PENDING", unpack(due and { "due", due } or {}))
  count(root, row.lane, "PENDING", 1)
  return { "OK", 0, "PENDING" }
end
ready_task(root, task, row.lane, row.score)
local unanswered = answer_touched(root, now, { [row.lane] = true }, tries)
return { "OK", unanswered and 1 or 0, "READY" }
