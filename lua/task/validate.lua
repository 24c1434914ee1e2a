-- validate: RUNNING -> VALIDATING
--
-- Marks tasks whose handlers returned and whose output is being checked; the lease continues. A
-- prefetched task whose start was not recorded counts as started now.
--
-- KEYS  1 ready       stream  its pending list holds the leases
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
  local id = ARGV[at]
  local held, row = lease.held(root, id, ARGV[at + 1], "holder")
  if not held then
    reply[#reply + 1] = "LOST"
  elseif row[1] == "CLAIMED" then
    reply[#reply + 1] = "STATE:CLAIMED"
  else
    if row[1] == "RUNNING" then
      redis.call("HSET", root .. "task:" .. id, "state", "VALIDATING")
      lease.stamp_start(root, now, id, row[6])
      lanes.count(root, row[3], "RUNNING", -1)
      lanes.count(root, row[3], "VALIDATING", 1)
    end
    reply[#reply + 1] = "OK"
  end
end
return reply
