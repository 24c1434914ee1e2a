-- park: RUNNING | VALIDATING -> RETRYING
--
-- Sets tasks aside for a while without spending an attempt: the service they call is limited.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 events      length of the events stream
-- EACH  task          its id
--       token         the claim's token
--       delay         ms until it may run again
--       reason        why, a word of the taxonomy
-- TOUCHES task:<id> delayed stats events handoffs
-- FLAGS allow-oom
-- REPLY OK [OK | LOST | STATE:<found>]...

-- @include now_ms
-- @include lease_held
-- @include settled_by
-- @include retry_later
-- @include emit

local root, events = ARGV[1], ARGV[2]
local first, stride = 3, 4

local now, reply = now_ms(), { "OK" }
for at = first, #ARGV, stride do
  local id, token, reason = ARGV[at], ARGV[at + 1], ARGV[at + 3]
  local held, row = lease_held(root, id, token)
  if held and row[1] == "CLAIMED" then
    reply[#reply + 1] = "STATE:CLAIMED"
  elseif held then
    retry_later(root, id, row, now + ARGV[at + 2],
      { "reason", reason, "settled", "park " .. token })
    redis.call("HINCRBY", root .. "task:" .. id, "parks", 1)
    emit(root, events, "task.parked", id, reason)
    reply[#reply + 1] = "OK"
  else
    reply[#reply + 1] = settled_by(root, id, token, "park") and "OK" or "LOST"
  end
end
return reply
