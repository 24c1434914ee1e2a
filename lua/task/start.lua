-- start: CLAIMED -> RUNNING
--
-- Begins the execution of claimed tasks, and of such as were RUNNING but waited for a slot.
-- Started already by the same token: OK again.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
-- EACH  task          its id
--       token         the claim's token
-- TOUCHES task:<id> def:<id> stats handoffs idem:<sha>
-- FLAGS allow-oom
-- REPLY OK [OK | LOST | STATE:<found>]...

-- @include now_ms
-- @include lease_held
-- @include start_task
-- @include stamp_start

local root = ARGV[1]
local first, stride = 2, 2

local now, reply = string.format("%.0f", now_ms()), { "OK" }
for at = first, #ARGV, stride do
  local id, token = ARGV[at], ARGV[at + 1]
  local held, row = lease_held(root, id, token)
  if not held then
    reply[#reply + 1] = "LOST"
  elseif row[1] == "VALIDATING" then
    reply[#reply + 1] = "STATE:VALIDATING"
  else
    if row[1] == "CLAIMED" then
      start_task(root, now, id, token, row)
    else
      stamp_start(root, now, id)
    end
    reply[#reply + 1] = "OK"
  end
end
return reply
