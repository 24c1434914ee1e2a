-- discard: DEAD_LETTERED -> CANCELLED
--
-- A reviewer gives a dead task up. Its keys expire like those of any ended task.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 reason      why, kept with the task
--       3 how         JSON {archive, ttl, events, reviews}
--       4 request     names this call: sent again, it is answered as before and changes nothing
--       5 memo_ms     how long that is remembered
-- EACH  task          its id
--       life          the life that the reviewer saw; "" where nobody can read it
--       review        JSON of the decision, see add_review; "" for none
-- TOUCHES task:<id> def:<id> failures:<id> dependents:<id> dead stats events noticed notices
--       tag:<t> ext:<sha>
--       cancelling telling outbox notes:<id> logs:<id> steps:<id> dag:<dag> unfinished
--       reviews archiving req:<request>
-- FLAGS allow-oom
-- REPLY OK [OK | GONE | STATE:<found> | DECIDED:<found>]...

-- @include answered
-- @include keep_answer
-- @include now_ms
-- @include ways_of
-- @include task_row
-- @include forget_later
-- @include is_visible
-- @include decided_first
-- @include cancel_dependents
-- @include tally_dags
-- @include tally
-- @include send_to_outbox
-- @include decoded
-- @include add_review
-- @include count
-- @include emit

local root, reason, how = ARGV[1], ARGV[2], ways_of(ARGV[1], ARGV[3])
local request, memo_ms = ARGV[4], ARGV[5]
local first, stride = 6, 3

local kept = answered(root, request)
if kept then
  return kept
end
local now, reply, ended, done = now_ms(), { "OK" }, {}, false
for at = first, #ARGV, stride do
  local id, life, said = ARGV[at], tonumber(ARGV[at + 1]), decoded(ARGV[at + 2])
  local row = task_row(root, id)
  local late = row.state and decided_first(root, id, row, life)
  local word = "OK"
  if not row.state or not is_visible(root, row) then
    word = "GONE"
  elseif late then
    word = late .. ":" .. row.state
  else
    done = true
    redis.call("ZREM", root .. "dead", id)
    add_review(root, now, id, row.more.life or 1, said, "cancel", how.reviews)
    redis.call("HSET", root .. "task:" .. id, "state", "CANCELLED", "why", reason,
      "settled", "discard", "discarded", now, "reviewed", now, "resolution", said.resolution)
    count(root, row.lane, "DEAD_LETTERED", -1)
    count(root, row.lane, "CANCELLED", 1)
    if how.archive then
      ended[#ended + 1], ended[#ended + 2] = id, (row.more.life or 1) .. " CANCELLED"
    elseif not dag_of(row.flags) then
      forget_later(root, id, how.ttl, row.flags, row.more)
    end
    tally(how, row.flags, "dead", "cancelled")
    cancel_dependents(root, id, row.flags, "cascade", "cancelled")
    emit(root, how.events, "task.discarded", id, reason)
  end
  reply[#reply + 1] = word
end
tally_dags(root, now, how)
send_to_outbox(root, how.archive, ended)
return done and keep_answer(root, request, memo_ms, reply) or reply
