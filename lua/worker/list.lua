-- list: no move
--
-- Returns the registered workers, those with the latest heartbeat first.
--
-- KEYS  1 workers     zset    workers by their last heartbeat
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       how many at most
-- FLAGS no-writes allow-oom
-- REPLY OK <now> [[name, seen ms, [field, value, ...]]]...

local workers = KEYS[1]
local root, limit = ARGV[1], ARGV[2]

local reply = { "OK", string.format("%.0f", values.now_ms()) }
local page = redis.call("ZRANGE", workers, 0, limit - 1, "REV", "WITHSCORES")
for at = 1, #page, 2 do
  local name, seen = page[at], page[at + 1]
  reply[#reply + 1] = { name, seen, redis.call("HGETALL", root .. "worker:" .. name) }
end
return reply
