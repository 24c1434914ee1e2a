-- budget: no move
--
-- Sets what all tasks of a DAG together may cost.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 micro_usd   in millionths of a dollar; "" for no limit
-- TOUCHES dag:<dag>
-- FLAGS allow-oom
-- REPLY OK | GONE

local root, dag, micro_usd = ARGV[1], ARGV[2], ARGV[3]

local key = root .. "dag:" .. dag
local status = redis.call("HGET", key, "status")
if not status or status == "writing" then
  return { "GONE" }
elseif micro_usd == "" then
  redis.call("HDEL", key, "budget")
else
  redis.call("HSET", key, "budget", micro_usd)
end
return { "OK" }
