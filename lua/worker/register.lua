-- register: no move
--
-- Registers a worker and what it offers, at its start and then again before its lease ends. Other
-- runs under the same name whose lease has ended are removed.
--
-- KEYS  1 workers     zset    workers by their last heartbeat
-- ARGV  1 root        prefix of every key of the shard
--       2 worker      its name
--       3 run         the name of the run: a new one each time the worker is started
--       4 facts       what it offers, as JSON, opaque here
--       5 lease_ms    how long it counts as active without a heartbeat
-- FLAGS allow-oom
-- REPLY OK | DRAINING

local workers = KEYS[1]
local root, worker, run, facts, lease_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])

local now, key = values.now_ms(), root .. "worker:" .. worker
for other, last in pairs(calls.registered_runs(root, worker)) do
  if other ~= run and last < now then
    redis.call("HDEL", key, "run:" .. other, "drain:" .. other)
  end
end
redis.call("HDEL", key, "left")
redis.call("HSET", key, "run:" .. run, string.format("%.0f %.0f ", now, now + lease_ms) .. facts)
redis.call("ZADD", workers, now, worker)
return { redis.call("HEXISTS", key, "drain:" .. run) == 1 and "DRAINING" or "OK" }
