-- steps: no move
--
-- What is begun with DAGs and not finished, so many of them: "<verb> <dag>" and how far it is, and
-- revivals of tasks. What was begun with one that is gone is no longer named.
--
-- KEYS  1 unfinished  hash    what others must go on with
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       how many
--       3 idle_ms     how long a DAG may be written without a sign of its producer
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
