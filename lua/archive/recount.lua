-- recount: no move
--
-- Sets the counter of the outbox to the number of tasks that a walk has found, only if the outbox
-- and the counter have not changed since. An entry never changes and new ones are added at the end:
-- the same number of entries with the same last one are the same entries. A repeated call returns
-- the same.
--
-- KEYS  1 outbox      stream  ended tasks for the archive
--       2 stats       hash    counters
-- ARGV  1 entries     how many entries the walk has found
--       2 last        id of the last of them; "" for none
--       3 counter     value of the counter before the walk
--       4 counted     how many tasks are in the entries
-- FLAGS allow-oom
-- REPLY OK | STATE <counter>: the outbox or the counter has changed

local outbox, stats = KEYS[1], KEYS[2]
local entries, last, counter, counted = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]

local newest = redis.call("XREVRANGE", outbox, "+", "-", "COUNT", 1)[1]
local found = redis.call("HGET", stats, "outbox") or "0"
if redis.call("XLEN", outbox) ~= entries or (newest and newest[1] or "") ~= last
  or (tonumber(found) ~= counter and found ~= counted) then
  return { "STATE", found }
end
redis.call("HSET", stats, "outbox", counted)
return { "OK" }
