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
--       3 life        the life that the reviewer saw; "" to go on with what was begun
--       4 def         "" or the changed definition
--       5 delay       ms to wait first; 0: none
--       6 tries       how many parked claims may be looked at
--       7 terms       JSON {archive, events, reviews}
--       8 steps       how many edges are followed to find a circle
--       9 page        how many parents are looked at in this call
--      10 review      JSON of the decision, see add_review; its not_before comes before `delay`
--      11 request     names this decision: sent again, it is answered as before, changing nothing
--      12 memo_ms     how long that is remembered
-- TOUCHES task:<id> def:<id> dead deadlines delayed blocked waits:<id> dependents:<id> lane:<n>
--       stats heirs:<id> gather:<id> idem:<sha> ext:<sha> events noticed notices dag:<dag>
--       held:<dag> unfinished reviews cancelling archiving req:<request>
--       + what line_up and answer_waiting touch
-- REPLY OK <0; 1: claims are left to answer; 2: parents are left to tell> <state> | GONE
--       | STATE <found> | DECIDED <found> | EXISTS <holder> | PARENT <id> | CLOSING <dag>
--       | CYCLE <id> | FAR <id>

-- @include answered
-- @include keep_answer
-- @include now_ms
-- @include ways_of
-- @include task_row
-- @include is_visible
-- @include freeing
-- @include free_task
-- @include enter_indexes
-- @include block_task
-- @include wait_task
-- @include revive_dag
-- @include decided_first
-- @include stays_dead
-- @include note_parents rarely
-- @include emit_ready
-- @include begin_life
-- @include add_review
-- @include count
-- @include answer_touched

local root, task, life, def = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local delay, tries, terms = tonumber(ARGV[5]), tonumber(ARGV[6]), ways_of(root, ARGV[7])
local steps, page, said = tonumber(ARGV[8]), tonumber(ARGV[9]), decoded(ARGV[10])
local request, memo_ms = ARGV[11], ARGV[12]

local now, key, row = now_ms(), root .. "task:" .. task, task_row(root, task)
local how, kept = freeing(1), life and answered(root, request)
if kept then
  return kept
elseif not row.state or not is_visible(root, row) then
  return { "GONE" }
elseif not life then
  local left = note_parents(root, task, row, page, how)
  enter_indexes(root, how)
  emit_ready(root, terms.events, how.readied)
  local more = answer_touched(root, now, how.touched, tries)
  return { "OK", left and 2 or more and 1 or 0, redis.call("HGET", key, "state") }
end
local late = decided_first(root, task, row, life)
if late then
  return { late, row.state }
end
local refused, open, many = stays_dead(root, task, row, steps, page)
if refused then
  return refused
end

local due = tonumber(said.not_before) or delay > 0 and now + delay or nil
revive_dag(root, now, task, row.flags, terms.events)
begin_life(root, now, task, row, def, terms.events)
said.not_before = due
add_review(root, now, task, life, said, "retry", terms.reviews)
if not many then
  redis.call("HDEL", key, "parents")
end
if due or #open > 0 or many then
  if many then
    redis.call("SADD", root .. "waits:" .. task, "@parents")
    redis.call("HSET", root .. "unfinished", "revive " .. task, 0)
  end
  block_task(root, task, open, due, row.more.trigger)
  wait_task(root, now, task, due)
  redis.call("HSET", key, "state", "PENDING", unpack(due and { "due", due } or {}))
  count(root, row.lane, "PENDING", 1)
  return keep_answer(root, request, memo_ms, { "OK", many and 2 or 0, "PENDING" })
end
free_task(root, task, row.lane, row.score, how, row.flags)
enter_indexes(root, how)
local unanswered = answer_touched(root, now, how.touched, tries)
return keep_answer(root, request, memo_ms, { "OK", unanswered and 1 or 0, "READY" })
