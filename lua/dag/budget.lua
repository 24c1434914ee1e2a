-- budget: no move
--
-- Sets what all tasks of a DAG together may cost. Those that it could not pay and can now return
-- to their lanes, so many in each call.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 micro_usd   in millionths of a dollar; "" for no limit
--       4 limit       how many tasks return at most
--       5 tries       how many parked claims may be looked at
-- TOUCHES dag:<dag> unpaid:<dag> held:<dag> short wakes task:<id> lane:<n> stats
--       + what answer_waiting touches
-- FLAGS allow-oom
-- REPLY OK <more> | GONE

-- @include now_ms
-- @include bring_back
-- @include answer_touched

local root, dag, micro_usd = ARGV[1], ARGV[2], ARGV[3]
local limit, tries = tonumber(ARGV[4]), tonumber(ARGV[5])

local key, how = root .. "dag:" .. dag, { touched = {} }
local status = redis.call("HGET", key, "status")
if not status or status == "writing" then
  return { "GONE" }
elseif micro_usd == "" then
  redis.call("HDEL", key, "budget", "told")
else
  redis.call("HSET", key, "budget", micro_usd)
  redis.call("HDEL", key, "told")
end
if bring_back(root, dag, limit, how) then
  redis.call("ZADD", root .. "wakes", 0, "$" .. dag)
end
if redis.call("EXISTS", root .. "unpaid:" .. dag) == 0 then
  redis.call("SREM", root .. "short", dag)
end
return { "OK", answer_touched(root, now_ms(), how.touched, tries) and 1 or 0 }
