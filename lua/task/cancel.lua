-- cancel: CREATED | PENDING | READY | RETRYING | CLAIMED | RUNNING | VALIDATING -> CANCELLED
--
-- Ends tasks that have not ended. Who holds one is fenced from now on. What depends on them is
-- cancelled too, or told that they are met; what one call cannot reach is left in `cancelling`,
-- and each call goes on with what is there.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 reason      why, kept with the task
--       3 dependents  cascade: cancelled too; unblock: they count it as met
--       4 limit       how many tasks at most in this call
--       5 how         JSON {archive, ttl, events}
--       6 tries       how many parked claims may be looked at
--       7 request     names the call: sent again, it says the same
--       8 woken       how many gates and accounts are looked at that were freed
--       9 back        how many tasks return at most that their DAGs could not pay
-- EACH  task          its id; none: go on with `cancelling`
-- FLAGS allow-oom
-- REPLY OK <more> <cancelled> [OK | GONE | STATE:<found>]...; more is 2 while tasks are still to
--       be reached, 1 where only claims are left to answer

local root, reason, dependents, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local how, request = calls.read_options(root, ARGV[5]), ARGV[7]
local most = { tries = tonumber(ARGV[6]), woken = ARGV[8], back = tonumber(ARGV[9]) }
local first, stride = 10, 1
indexes.prepare(how, limit - (#ARGV - first + 1))
how.request, how.ended = request, {}

local now, reply = values.now_ms(), { "OK", 0, 0 }
for at = first, #ARGV, stride do
  reply[#reply + 1] = cancel.one(root, now, ARGV[at], reason, dependents, how)
end
how.cascading = true
while how.left > 0 do
  local found = redis.call("HRANDFIELD", root .. "cancelling", how.left, "WITHVALUES") or {}
  if #found == 0 then
    break
  end
  for i = 1, #found, 2 do
    local parent = string.match(found[i], "^children (.+)$")
    local rule, why = string.match(found[i + 1], "^(%S+) (.*)$")
    if parent and how.left > 0 then
      cancel.cascade(root, now, parent, rule, why, how)
    elseif not parent then
      cancel.one(root, now, found[i], why, rule, how)
      how.left = how.left - 1
    end
  end
end

reply[3] = #how.ended / 2
indexes.enter(root, how)
status.write_tallies(root, now, how)
event.send_to_outbox(root, how.archive, how.ended)
event.emit_ready(root, how.events, how.readied)
how.freed = #how.ended > 0
local unanswered = answer.freed(root, now, how, most)
if redis.call("EXISTS", root .. "cancelling") == 1 then
  reply[2] = 2
elseif unanswered then
  reply[2] = 1
end
return reply
