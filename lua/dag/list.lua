-- list: no move
--
-- Returns a page of the DAGs of the queue, newest first. DAGs whose keys have expired are removed
-- from the list.
--
-- KEYS  1 dags        zset    committed DAGs by the time of their commit
-- ARGV  1 root        prefix of every key of the shard
--       2 from        position of the first
--       3 limit       how many DAGs
-- FLAGS allow-oom
-- REPLY OK <DAGs checked> [<dag> <hash>]...

local dags = KEYS[1]
local root, from, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local found = redis.call("ZREVRANGE", dags, from, from + limit - 1)
local reply = { "OK", #found }
for _, dag in ipairs(found) do
  local flat = redis.call("HGETALL", root .. "dag:" .. dag)
  if #flat > 0 then
    reply[#reply + 1], reply[#reply + 2] = dag, flat
  else
    redis.call("ZREM", dags, dag)
  end
end
return reply
