-- leave: no move
--
-- Removes the run of a worker that has ended in good order. If it was the last run under that name,
-- the worker is recorded as having left, although its last heartbeat is recent.
--
-- KEYS  1 workers     zset    workers by their last heartbeat; routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 worker      its name
--       3 run         the name of the run
-- FLAGS allow-oom
-- REPLY OK

local root, worker, run = ARGV[1], ARGV[2], ARGV[3]

local key = root .. "worker:" .. worker
local known = redis.call("HDEL", key, "run:" .. run, "drain:" .. run) > 0
if known and not next(calls.registered_runs(root, worker)) then
  redis.call("HSET", key, "left", string.format("%.0f", values.now_ms()))
end
return { "OK" }
