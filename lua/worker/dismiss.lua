-- dismiss: no move
--
-- Deletes workers that have sent no heartbeat for long: their consumers in the group and their
-- records. A worker that still holds a lease stays, because the lease would be deleted with its
-- consumer.
--
-- KEYS  1 ready       stream  its group has a consumer for each worker
--       2 workers     zset    workers by their last heartbeat
-- ARGV  1 root        prefix of every key of the shard
--       2 silent_ms   how long without a heartbeat
--       3 limit       how many at most
-- FLAGS allow-oom
-- REPLY OK <deleted>

local ready, workers = KEYS[1], KEYS[2]
local root, silent_ms, limit = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local before, dismissed = string.format("%.0f", values.now_ms() - silent_ms), 0
for _, name in ipairs(redis.call("ZRANGEBYSCORE", workers, "-inf", before, "LIMIT", 0, limit)) do
  local held = redis.pcall("XPENDING", ready, "workers", "-", "+", 1, name)
  if held.err or #held == 0 then
    redis.pcall("XGROUP", "DELCONSUMER", ready, "workers", name)
    redis.call("ZREM", workers, name)
    redis.call("DEL", root .. "worker:" .. name)
    dismissed = dismissed + 1
  end
end
return { "OK", dismissed }
