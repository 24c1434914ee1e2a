-- read: no move
--
-- Returns the account of the day, those of workers with a budget, and how many tasks exceed the
-- remaining budget of their DAG.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
-- FLAGS no-writes allow-oom
-- REPLY OK <unpaid tasks> [account, ceiling, spent, reserved, 1 where a task exceeded it]...;
--       the ceiling is "" where there is none

local root = ARGV[1]

local today, short, unpaid = values.day_of(values.now_ms()), {}, 0
for _, account in ipairs(redis.call("SMEMBERS", root .. "short")) do
  short[account] = true
  unpaid = unpaid + redis.call("ZCARD", root .. "unpaid:" .. account)
end
local accounts = redis.call("SMEMBERS", root .. "budgets")
if redis.call("SISMEMBER", root .. "budgets", "day") == 0 then
  accounts[#accounts + 1] = "day"
end
table.sort(accounts)
local reply = { "OK", unpaid }
for _, account in ipairs(accounts) do
  local row = redis.call("HMGET", root .. "budget:" .. account, "ceiling", "spent", "reserved",
    "date")
  local past = account == "day" and row[4] ~= today
  reply[#reply + 1] = { account, row[1] or "", past and "0" or row[2] or "0", row[3] or "0",
    short[account] and 1 or 0 }
end
return reply
