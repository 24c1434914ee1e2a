-- park: RUNNING | VALIDATING -> RETRYING
--
-- Sets tasks aside for a while without spending an attempt: the service they call is limited. Its
-- whole type can be slowed down, of a task with a key instead all of that, so that others do not
-- find the same.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 events      length of the events stream
--       3 most        how often a task may be set aside; "" for no limit
-- EACH  task          its id
--       token         the claim's token
--       delay         ms until it may run again
--       reason        why, a word of the taxonomy
--       type          whose tasks are slowed down
--       slow_ms       for how long none of them is handed out; 0: not slowed down
-- TOUCHES task:<id> delayed stats events handoffs breaker:<type> wakes slow:<type> slowed
--       hand:<key> full
--       budget:<account> short unpaid:<dag>
--       + what line_up touches
-- FLAGS allow-oom
-- REPLY OK [OK | LOST | STATE:<found>]...: STATE:SPENT where it was set aside too often

-- @include now_ms
-- @include lease_held
-- @include settled_by
-- @include retry_later
-- @include slow_down
-- @include is_keyed
-- @include key_of rarely
-- @include trip_breaker
-- @include emit

local root, events, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local first, stride = 4, 6

local now, reply = now_ms(), { "OK" }
for at = first, #ARGV, stride do
  local id, token, reason, type = ARGV[at], ARGV[at + 1], ARGV[at + 3], ARGV[at + 4]
  local held, row = lease_held(root, id, token)
  local key = root .. "task:" .. id
  if held and row[1] == "CLAIMED" then
    reply[#reply + 1] = "STATE:CLAIMED"
  elseif held and most and tonumber(redis.call("HGET", key, "parks") or "0") >= most then
    reply[#reply + 1] = "STATE:SPENT"
  elseif held then
    retry_later(root, id, row, now + ARGV[at + 2],
      { "reason", reason, "settled", "park " .. token })
    redis.call("HINCRBY", key, "parks", 1)
    emit(root, events, "task.parked", id, reason)
    trip_breaker(root, now, type, "", id .. " " .. token, events)
    local what = is_keyed(row[3]) and "@" .. key_of(root, id) or type
    slow_down(root, now, what, tonumber(ARGV[at + 5]), events)
    reply[#reply + 1] = "OK"
  else
    reply[#reply + 1] = settled_by(root, id, token, "park") and "OK" or "LOST"
  end
end
return reply
