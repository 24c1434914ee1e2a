-- cancel: CREATED | PENDING | READY | RETRYING | CLAIMED | RUNNING | VALIDATING -> CANCELLED
--
-- Ends tasks that have not ended. The holder of a lease is fenced from then on. Dependents are
-- cancelled too, or their dependency counts as met; what one call does not reach stays in
-- `cancelling`, and every call continues with it.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 reason      why, stored with the task
--       3 dependents  cascade: they are cancelled too; unblock: for them it counts as met
--       4 limit       how many tasks at most in this call
--       5 how         JSON {archive, ttl, events}
--       6 tries       how many waiting claims are tried at most
--       7 request     names the call: a repetition gets the same reply
--       8 woken       how many freed gates and accounts are checked at most
--       9 back        how many unpaid tasks of DAGs return to their lanes at most
-- EACH  task          its id; none: only continue with `cancelling`
-- FLAGS allow-oom
-- REPLY OK <more> <cancelled> [OK | GONE | STATE:<found>]...; more is 2 while tasks remain to be
--       reached, 1 where only waiting claims remain to be answered

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
    local ended = string.match(found[i], "^children (.+)$")
    local rule, why = string.match(found[i + 1], "^(%S+) (.*)$")
    if ended and how.left > 0 then
      cancel.cascade(root, now, ended, rule, why, how)
    elseif not ended then
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
