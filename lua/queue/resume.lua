-- resume: READY -> READY
--
-- Ends a pause and answers the claims that wait for tasks that were held back by it.
--
-- KEYS  1 paused      set     what is paused
-- ARGV  1 root        prefix of every key of the shard
--       2 what        queue, type=<type> or lane=<number>
--       3 lanes       JSON [number, ...]: the lanes whose tasks can be claimed again
--       4 tries       how many waiting claims to check at most
--       5 request     name of this call; repeated, it returns the first reply and changes nothing
--       6 memo_ms     how long the reply is kept for a repeated call
-- FLAGS allow-oom
-- REPLY OK <more>

local paused = KEYS[1]
local root, what, lanes, tries = ARGV[1], ARGV[2], cjson.decode(ARGV[3]), tonumber(ARGV[4])
local request, memo_ms = ARGV[5], ARGV[6]

local kept = calls.remembered(root, request)
if kept then
  return kept
end
redis.call("SREM", paused, what)
local more = answer.lanes(root, values.now_ms(), lanes, tries)
return calls.remember(root, request, memo_ms, { "OK", more and 1 or 0 })
