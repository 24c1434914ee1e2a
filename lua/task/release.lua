-- release: CLAIMED | RUNNING | VALIDATING -> READY
--
-- Releases leases unused: no attempt is spent, and the tasks keep their place.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 tries       how many waiting claims are tried at most
--       3 woken       how many freed gates and accounts are checked at most
--       4 back        how many unpaid tasks of DAGs return to their lanes at most
-- EACH  task          its id
--       token         the claim's token
-- FLAGS allow-oom
-- REPLY OK <more> [OK | LOST]...

local root = ARGV[1]
local most = { tries = tonumber(ARGV[2]), woken = ARGV[3], back = tonumber(ARGV[4]) }
local first, stride = 5, 2

local now, reply, how = values.now_ms(), { "OK", 0 }, { touched = {} }
for at = first, #ARGV, stride do
  local id, token = ARGV[at], ARGV[at + 1]
  local held, row = lease.held(root, id, token)
  if held then
    how.freed = true
    if row[1] ~= "CLAIMED" then
      late.expect_report(root, id, token)
    end
    lease.release(root, id, row, "release " .. token, how)
    reply[#reply + 1] = "OK"
  else
    reply[#reply + 1] = calls.settled_by(root, id, token, "release") and "OK" or "LOST"
  end
end
if answer.freed(root, now, how, most) then
  reply[2] = 1
end
return reply
