-- budget: no move
--
-- Sets what all tasks of a DAG together may cost. READY tasks that exceeded the remaining budget
-- and fit into it now return to their lanes, at most `limit` of them; the promoter returns the
-- rest.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 micro_usd   in millionths of a dollar; "" for no limit
--       4 limit       how many tasks return to their lanes at most
--       5 tries       how many waiting claims to check at most
--       6 request     name of this call; repeated, it returns the first reply and changes nothing
--       7 memo_ms     how long the reply is kept for a repeated call
-- FLAGS allow-oom
-- REPLY OK <more> | GONE

local root, dag, micro_usd = ARGV[1], ARGV[2], ARGV[3]
local limit, tries, request, memo_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]

local key, how = root .. "dag:" .. dag, { touched = {} }
local kept, status = calls.remembered(root, request), redis.call("HGET", key, "status")
if kept then
  return kept
elseif not status or status == "writing" then
  return { "GONE" }
elseif micro_usd == "" then
  redis.call("HDEL", key, "budget", "told")
else
  redis.call("HSET", key, "budget", micro_usd)
  redis.call("HDEL", key, "told")
end
if accounts.return_unpaid(root, dag, limit, how) then
  redis.call("ZADD", root .. "wakes", 0, "$" .. dag)
end
if redis.call("EXISTS", root .. "unpaid:" .. dag) == 0 then
  redis.call("SREM", root .. "short", dag)
end
local more = answer.touched(root, values.now_ms(), how.touched, tries)
return calls.remember(root, request, memo_ms, { "OK", more and 1 or 0 })
