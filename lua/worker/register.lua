-- register: no move
--
-- Says who works here and what it offers, at its start and then again before a lease is over. Those
-- that ran under the same name and did not are forgotten.
--
-- KEYS  1 workers     zset    workers by their last sign of life
-- ARGV  1 root        prefix of every key of the shard
--       2 worker      its name
--       3 run         the name of its conversation: another one each time it is started
--       4 facts       JSON of what it offers, opaque here
--       5 lease_ms    how long without a sign of life it is gone
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
