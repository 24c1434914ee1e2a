-- escalate: no move
--
-- Marks dead tasks for a reviewer who may decide about them. They stay dead.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 how         JSON {archive, events, reviews}
--       3 request     names this call: a repetition gets the same reply and changes nothing
--       4 memo_ms     how long that reply is kept
-- EACH  task          its id
--       life          the life that the reviewer saw
--       review        JSON of the decision, see revive.add_review; "" for none
-- REPLY OK [OK | GONE | STATE:<found> | DECIDED:<found>]...

local root, how, request, memo_ms = ARGV[1], calls.read_options(ARGV[1], ARGV[2]), ARGV[3], ARGV[4]
local first, stride = 5, 3

local kept = calls.remembered(root, request)
if kept then
  return kept
end
local now, reply, done = values.now_ms(), { "OK" }, false
for at = first, #ARGV, stride do
  local id, life, review = ARGV[at], tonumber(ARGV[at + 1]), values.decoded(ARGV[at + 2])
  local row = tasks.read(root, id)
  local late = row.state and revive.already_decided(root, id, row, life)
  local word = "OK"
  if not row.state or not tasks.is_visible(root, row) then
    word = "GONE"
  elseif late then
    word = late .. ":" .. row.state
  else
    done = true
    redis.call("HSET", root .. "task:" .. id, "reviewed", now, "resolution", "escalate")
    revive.add_review(root, now, id, life, review, "escalate", how.reviews)
    event.emit(root, how.events, "task.escalated", id, review.cause or "")
  end
  reply[#reply + 1] = word
end
return done and calls.remember(root, request, memo_ms, reply) or reply
