-- discard: DEAD_LETTERED -> CANCELLED
--
-- A reviewer gives a dead task up. Its keys expire like those of any ended task.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 reason      why, kept with the task
--       3 ttl         how long it is kept, ms
--       4 events      length of the events stream
-- EACH  task          its id
-- TOUCHES task:<id> def:<id> failures:<id> dependents:<id> dead stats events tag:<t> ext:<sha>
--       cancelling
-- FLAGS allow-oom
-- REPLY OK [OK | GONE | STATE:<found>]...

-- @include now_ms
-- @include task_row
-- @include forget_later
-- @include cancel_dependents
-- @include count
-- @include emit

local root, reason, ttl, events = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local first, stride = 5, 1

local now, reply, orphaned = now_ms(), { "OK" }, {}
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
    forget_later(root, id, ttl, row.flags, row.more)
    cancel_dependents(root, id, row.flags, "cascade", orphaned, {}, 0)
    emit(root, events, "task.discarded", id, reason)
  end
  reply[#reply + 1] = word
end
for _, child in ipairs(orphaned) do
  redis.call("HSET", root .. "cancelling", child[1], child[2])
end
return reply
