-- leave: no move
--
-- A worker has ended in good order. When it was the last one under its name, that is known to have
-- left, although it was heard of a moment ago.
--
-- KEYS  1 workers     zset    workers by their last sign of life; routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 worker      its name
--       3 run         the name of its conversation
-- FLAGS allow-oom
-- REPLY OK

local root, worker, run = ARGV[1], ARGV[2], ARGV[3]

local key = root .. "worker:" .. worker
local known = redis.call("HDEL", key, "run:" .. run, "drain:" .. run) > 0
if known and not next(calls.registered_runs(root, worker)) then
  redis.call("HSET", key, "left", string.format("%.0f", values.now_ms()))
end
return { "OK" }
