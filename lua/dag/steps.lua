-- steps: no move
--
-- Returns operations on DAGs that have been begun and not finished, at most `limit`: "<verb> <dag>"
-- and its progress, and retries of dead tasks. Entries of DAGs and tasks that do not exist are
-- deleted. Uncommitted DAGs whose producer is silent are returned as "drop <dag>".
--
-- KEYS  1 unfinished  hash    operations on DAGs that continue in the background
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       how many of each kind
--       3 idle_ms     how long a DAG may stay uncommitted without a call of its producer
-- FLAGS allow-oom
-- REPLY OK [<step> <position>]...

local unfinished = KEYS[1]
local root, limit, idle_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local found, reply = redis.call("HRANDFIELD", unfinished, limit, "WITHVALUES"), { "OK" }
for i = 1, #found, 2 do
  local id = string.match(found[i], "%S+$")
  if redis.call("EXISTS", root .. "dag:" .. id, root .. "task:" .. id) > 0 then
    reply[#reply + 1], reply[#reply + 2] = found[i], found[i + 1]
  else
    redis.call("HDEL", unfinished, found[i])
  end
end
local left = redis.call("ZRANGEBYSCORE", root .. "writing", "-inf", values.now_ms() - idle_ms,
  "LIMIT", 0, limit)
for _, dag in ipairs(left) do
  reply[#reply + 1], reply[#reply + 2] = "drop " .. dag, "0"
end
return reply
