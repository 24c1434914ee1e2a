-- escalate: no move
--
-- A reviewer hands dead tasks on to whoever may decide about them. They stay dead, and are marked.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 how         JSON {archive, events, reviews}
--       3 request     names this call: sent again, it is answered as before and changes nothing
--       4 memo_ms     how long that is remembered
-- EACH  task          its id
--       life          the life that the reviewer saw
--       review        JSON of the decision, see add_review; "" for none
-- TOUCHES task:<id> reviews events noticed notices archiving req:<request>
-- REPLY OK [OK | GONE | STATE:<found> | DECIDED:<found>]...

-- @include answered
-- @include keep_answer
-- @include now_ms
-- @include ways_of
-- @include task_row
-- @include is_visible
-- @include decided_first
-- @include decoded
-- @include add_review
-- @include emit

local root, how, request, memo_ms = ARGV[1], ways_of(ARGV[1], ARGV[2]), ARGV[3], ARGV[4]
local first, stride = 5, 3

local kept = answered(root, request)
if kept then
  return kept
end
local now, reply, done = now_ms(), { "OK" }, false
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
    redis.call("HSET", root .. "task:" .. id, "reviewed", now, "resolution", "escalate")
    add_review(root, now, id, life, said, "escalate", how.reviews)
    emit(root, how.events, "task.escalated", id, said.cause or "")
  end
  reply[#reply + 1] = word
end
return done and keep_answer(root, request, memo_ms, reply) or reply
