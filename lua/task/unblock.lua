-- unblock: PENDING -> READY
--
-- Continues with the dependents of completed tasks, and with the triggered dependents of ended
-- ones, where one call could not resolve all of them.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       how many dependents are resolved in this call
--       3 tries       how many waiting claims are tried at most
--       4 events      length of the events stream
-- FLAGS allow-oom
-- REPLY OK <more>

local root, limit, tries, events = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local now, how = values.now_ms(), indexes.collector(limit)
while how.left > 0 do
  local completed = redis.call("SRANDMEMBER", root .. "unblocking")
  local ended = redis.call("SRANDMEMBER", root .. "telling")
  if completed then
    if unblock.dependents(root, completed, how) then
      redis.call("SREM", root .. "unblocking", completed)
    end
  elseif ended then
    local state = redis.call("HGET", root .. "task:" .. ended, "state")
    if state == "COMPLETED" or state == "CANCELLED" or state == "DEAD_LETTERED" then
      unblock.notify_ended(root, ended, state, how)
    else
      -- The task was retried: its next end resolves its dependents.
      redis.call("SREM", root .. "telling", ended)
    end
  else
    break
  end
  how.left = how.left - 1
end
unblock.met(root, how)
indexes.enter(root, how)
event.emit_ready(root, events, how.readied)
local more = answer.touched(root, now, how.touched, tries)
  or redis.call("EXISTS", root .. "unblocking", root .. "telling") > 0
return { "OK", more and 1 or 0 }
