-- start: CLAIMED -> RUNNING
--
-- Begins the execution of claimed tasks, and of RUNNING ones that waited for a slot. A repetition
-- with the same token returns OK again.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
-- EACH  task          its id
--       token         the claim's token
-- FLAGS allow-oom
-- REPLY OK [OK | LOST | STATE:<found>]...

local root = ARGV[1]
local first, stride = 2, 2

local _, now = values.now_ms()
local reply = { "OK" }
for at = first, #ARGV, stride do
  local id, token = ARGV[at], ARGV[at + 1]
  local held, row = lease.held(root, id, token, "holder")
  if not held then
    reply[#reply + 1] = "LOST"
  elseif row[1] == "VALIDATING" then
    reply[#reply + 1] = "STATE:VALIDATING"
  else
    if row[1] == "CLAIMED" then
      lease.start(root, now, id, token, row)
    else
      lease.stamp_start(root, now, id, row[6])
    end
    reply[#reply + 1] = "OK"
  end
end
return reply
