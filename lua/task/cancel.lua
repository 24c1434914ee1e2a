-- cancel: CREATED | PENDING | READY | RETRYING | CLAIMED | RUNNING | VALIDATING -> CANCELLED
--
-- Ends tasks that have not ended. Who holds one is fenced from now on. What depends on them is
-- cancelled too, or told that they are met; what one call cannot reach is left in `cancelling`.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 reason      why, kept with the task
--       3 dependents  cascade: cancelled too; unblock: they count it as met
--       4 limit       how many tasks at most in this call
--       5 how         JSON {archive, ttl, events}
--       6 tries       how many parked claims may be looked at
--       7 request     names the call: sent again, it says the same
-- EACH  task          its id; none: go on with `cancelling`
-- TOUCHES task:<id> def:<id> lane:<n> waits:<id> dependents:<id> delayed blocked deadlines
--       handoffs cancelling unblocking stats outbox events idem:<sha> ext:<sha> tag:<t>
--       watchers:<id> mail:<box> failures:<id> + what answer_waiting touches
-- FLAGS allow-oom
-- REPLY OK <more> <cancelled> [OK | GONE | STATE:<found>]...

-- @include now_ms
-- @include task_row
-- @include cancel_task
-- @include cancel_dependents
-- @include cancel_later
-- @include send_to_outbox
-- @include answer_touched

local root, reason, dependents, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local how, tries, request = cjson.decode(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local first, stride = 8, 1
how.request = request

local now, reply = now_ms(), { "OK", 0, 0 }
local ended, touched, list = {}, {}, {}
for at = first, #ARGV, stride do
  list[#list + 1] = { ARGV[at], reason, dependents }
end
local asked = #list
if asked == 0 then
  local left = redis.call("HGETALL", root .. "cancelling")
  for i = 1, math.min(#left, limit * 2), 2 do
    local rule, why = string.match(left[i + 1], "^(%S+) (.*)$")
    list[#list + 1] = { left[i], why, rule }
  end
end

local at = 1
while at <= #list and at <= limit do
  local id, why, rule = list[at][1], list[at][2], list[at][3]
  local row = task_row(root, id)
  local word = "OK"
  redis.call("HDEL", root .. "cancelling", id)
  if not row.state then
    word = "GONE"
  elseif row.state == "COMPLETED" or row.state == "DEAD_LETTERED" or row.state == "CANCELLED" then
    local again = redis.call("HGET", root .. "task:" .. id, "settled") == "cancel " .. request
    word = again and "OK" or "STATE:" .. row.state
  else
    ended[#ended + 1] = id
    ended[#ended + 1] = cancel_task(root, now, id, row, why, how)
    cancel_dependents(root, id, row.flags, rule, list, touched, limit)
  end
  if at <= asked then
    reply[at + 3] = word
  end
  at = at + 1
end
cancel_later(root, list, at)

reply[3] = #ended / 2
send_to_outbox(root, how.archive, ended)
local unanswered = answer_touched(root, now, touched, tries)
if unanswered or redis.call("HLEN", root .. "cancelling") > 0 then
  reply[2] = 1
end
return reply
