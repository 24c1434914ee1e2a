-- park: RUNNING | VALIDATING -> RETRYING
--
-- Puts tasks off for a while without spending an attempt: the service that they call limits its
-- rate. The whole type can be slowed down, or only the tenant of a task that has one, so that other
-- tasks do not reach the same limit.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 events      length of the events stream
--       3 parks       how often a task may be parked; "" for no limit
--       4 tries       how many waiting claims are tried at most
--       5 woken       how many freed gates and accounts are checked at most
--       6 back        how many unpaid tasks of DAGs return to their lanes at most
-- EACH  task          its id
--       token         the claim's token
--       delay         ms until it may run again
--       reason        why, a word of the failure taxonomy
--       type          the type that is slowed down
--       slow_ms       for how long none of its tasks can be claimed; 0: not slowed down
-- FLAGS allow-oom
-- REPLY OK <more> [OK | LOST | STATE:<found>]...: STATE:SPENT where it was parked too often

local root, events, parks = ARGV[1], ARGV[2], tonumber(ARGV[3])
local most = { tries = tonumber(ARGV[4]), woken = ARGV[5], back = tonumber(ARGV[6]) }
local first, stride = 7, 6

local now, reply, how = values.now_ms(), { "OK", 0 }, { touched = {} }
for at = first, #ARGV, stride do
  local id, token, reason, type = ARGV[at], ARGV[at + 1], ARGV[at + 3], ARGV[at + 4]
  local held, row = lease.held(root, id, token)
  local key = root .. "task:" .. id
  if held and row[1] == "CLAIMED" then
    reply[#reply + 1] = "STATE:CLAIMED"
  elseif held and parks and tonumber(redis.call("HGET", key, "parks") or "0") >= parks then
    reply[#reply + 1] = "STATE:SPENT"
  elseif held then
    lease.retry_later(root, id, row, now + ARGV[at + 2],
      { "reason", reason, "settled", "park " .. token })
    redis.call("HINCRBY", key, "parks", 1)
    event.emit(root, events, "task.rate_limited", id, reason)
    breaker.trip(root, now, type, "", id .. " " .. token, events)
    local what = tasks.has_tenant(row[3]) and "@" .. tasks.tenant_of(root, id) or type
    slowdown.begin(root, now, what, tonumber(ARGV[at + 5]), events)
    how.freed = true
    reply[#reply + 1] = "OK"
  else
    reply[#reply + 1] = calls.settled_by(root, id, token, "park") and "OK" or "LOST"
  end
end
if answer.freed(root, now, how, most) then
  reply[2] = 1
end
return reply
