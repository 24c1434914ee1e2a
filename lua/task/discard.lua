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
--       cancelling telling outbox notes:<id> logs:<id> steps:<id> dag:<dag> unfinished
-- FLAGS allow-oom
-- REPLY OK [OK | GONE | STATE:<found>]...

-- @include now_ms
-- @include task_row
-- @include forget_later
-- @include is_visible
-- @include cancel_dependents
-- @include tally_dags
-- @include tally
-- @include send_to_outbox
-- @include count
-- @include emit

local root, reason, how = ARGV[1], ARGV[2], cjson.decode(ARGV[3])
local first, stride = 4, 1

local now, reply, ended = now_ms(), { "OK" }, {}
for at = first, #ARGV, stride do
  local id = ARGV[at]
  local row = task_row(root, id)
  local word = "OK"
  if not row.state or not is_visible(root, row) then
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
return reply
