-- unblock: PENDING -> READY
--
-- Goes on telling the dependents of completed tasks, where one call could not tell them all.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       dependents told in this call
--       3 tries       how many parked claims may be looked at
-- TOUCHES unblocking dependents:<id> waits:<id> task:<id> blocked lane:<n> stats
--       + what answer_waiting touches
-- FLAGS allow-oom
-- REPLY OK <more>

-- @include now_ms
-- @include unblock_dependents
-- @include answer_touched

local root, limit, tries = ARGV[1], ARGV[2], tonumber(ARGV[3])

local now, touched = now_ms(), {}
local parent = redis.call("SRANDMEMBER", root .. "unblocking")
if not parent then
  return { "OK", 0 }
end
unblock_dependents(root, parent, limit, touched)
local more = answer_touched(root, now, touched, tries)
  or redis.call("SCARD", root .. "unblocking") > 0
return { "OK", more and 1 or 0 }
