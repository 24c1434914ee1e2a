-- discard: DEAD_LETTERED -> CANCELLED
--
-- A reviewer gives a dead task up. Its keys expire like those of any ended task.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 reason      why, kept with the task
--       3 how         JSON {archive, ttl, events}
-- EACH  task          its id
-- TOUCHES task:<id> def:<id> failures:<id> dependents:<id> dead stats events tag:<t> ext:<sha>
--       cancelling outbox notes:<id> logs:<id>
-- FLAGS allow-oom
-- REPLY OK [OK | GONE | STATE:<found>]...

-- @include now_ms
-- @include task_row
-- @include forget_later
-- @include cancel_dependents
-- @include cancel_later
-- @include send_to_outbox
-- @include count
-- @include emit

local root, reason, how = ARGV[1], ARGV[2], cjson.decode(ARGV[3])
local first, stride = 4, 1

local now, reply, orphaned, ended = now_ms(), { "OK" }, {}, {}
for at = first, #ARGV, stride do
  local id = ARGV[at]
  local row = task_row(root, id)
  local word = "OK"
  if not row.state then
    word = "GONE"
  elseif row.state ~= "DEAD_LETTERED" then
    local again = row.state == "CANCELLED"
      and redis.call("HGET", root .. "task:" .. id, "settled") == "discard"
    word = again and "OK" or "STATE:" .. row.state
  else
    redis.call("ZREM", root .. "dead", id)
    redis.call("HSET", root .. "task:" .. id, "state", "CANCELLED", "why", reason,
      "settled", "discard", "discarded", now)
    count(root, row.lane, "DEAD_LETTERED", -1)
    count(root, row.lane, "CANCELLED", 1)
    if how.archive == "1" then
      ended[#ended + 1], ended[#ended + 2] = id, (row.more.life or 1) .. " CANCELLED"
    else
      forget_later(root, id, how.ttl, row.flags, row.more)
    end
    cancel_dependents(root, id, row.flags, "cascade", orphaned, {}, 0)
    emit(root, how.events, "task.discarded", id, reason)
  end
  reply[#reply + 1] = word
end
cancel_later(root, orphaned, 1)
send_to_outbox(root, how.archive, ended)
return reply
