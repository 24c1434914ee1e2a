-- set: no move
--
-- Sets the ceiling of an account: of the day of the queue, or of a worker by its name. Tasks that
-- exceeded the remaining budget may be claimable then, so waiting claims are answered.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 account     day, or worker=<name>
--       3 micro_usd   the ceiling in millionths of a dollar; "" for none
--       4 afresh      1: what was spent so far is reset to 0
--       5 tries       how many waiting claims to check at most
--       6 request     name of this call; repeated, it returns the first reply and changes nothing
--       7 memo_ms     how long the reply is kept for a repeated call
-- FLAGS allow-oom
-- REPLY OK <more>

local root, account, micro_usd, afresh = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local tries, request, memo_ms = tonumber(ARGV[5]), ARGV[6], ARGV[7]

local key, budgets, touched = root .. "budget:" .. account, root .. "budgets", {}
local kept = calls.remembered(root, request)
if kept then
  return kept
end
redis.call("HDEL", key, "told")
if micro_usd == "" then
  redis.call("HDEL", key, "ceiling")
  redis.call("SREM", budgets, account)
else
  redis.call("HSET", key, "ceiling", micro_usd)
  redis.call("SADD", budgets, account)
end
if afresh == "1" then
  redis.call("HSET", key, "spent", 0)
end
local row = redis.call("HMGET", key, "reserved", "spent")
if micro_usd == "" and account ~= "day" and tonumber(row[1] or "0") <= 0
  and (row[2] or "0") == "0" then
  redis.call("DEL", key)
end
if redis.call("SREM", root .. "short", account) == 1 then
  redis.call("ZREM", root .. "wakes", "$" .. account)
  lanes.touch_type(root, "*", touched)
end
local more = answer.touched(root, values.now_ms(), touched, tries)
return calls.remember(root, request, memo_ms, { "OK", more and 1 or 0 })
