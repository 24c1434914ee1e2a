-- discard: DEAD_LETTERED -> CANCELLED
--
-- Cancels dead tasks by decision of a reviewer. Their keys expire like those of any ended task.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 reason      why, stored with the task
--       3 how         JSON {archive, ttl, events, reviews}
--       4 request     names this call: a repetition gets the same reply and changes nothing
--       5 memo_ms     how long that reply is kept
-- EACH  task          its id
--       life          the life that the reviewer saw; "" where it is not known
--       review        JSON of the decision, see revive.add_review; "" for none
-- FLAGS allow-oom
-- REPLY OK [OK | GONE | STATE:<found> | DECIDED:<found>]...

local root, reason, how = ARGV[1], ARGV[2], calls.read_options(ARGV[1], ARGV[3])
local request, memo_ms = ARGV[4], ARGV[5]
local first, stride = 6, 3

local kept = calls.remembered(root, request)
if kept then
  return kept
end
local now, reply, ended, done = values.now_ms(), { "OK" }, {}, false
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
    redis.call("ZREM", root .. "dead", id)
    revive.add_review(root, now, id, row.more.life or 1, review, "cancel", how.reviews)
    redis.call("HSET", root .. "task:" .. id, "state", "CANCELLED", "why", reason,
      "settled", "discard", "discarded", now, "reviewed", now, "resolution", review.resolution)
    lanes.count(root, row.lane, "DEAD_LETTERED", -1)
    lanes.count(root, row.lane, "CANCELLED", 1)
    if how.archive then
      ended[#ended + 1], ended[#ended + 2] = id, (row.more.life or 1) .. " CANCELLED"
    elseif not tasks.dag_of(row.flags) then
      tasks.expire(root, id, how.ttl, row.flags, row.more)
    end
    status.tally(how, row.flags, "dead", "cancelled")
    cancel.dependents(root, id, row.flags, "cascade", "cancelled")
    event.emit(root, how.events, "task.discarded", id, reason)
  end
  reply[#reply + 1] = word
end
status.write_tallies(root, now, how)
event.send_to_outbox(root, how.archive, ended)
return done and calls.remember(root, request, memo_ms, reply) or reply
