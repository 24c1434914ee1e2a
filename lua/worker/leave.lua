-- leave: no move
--
-- A worker has ended in good order. When it was the last one under its name, that is known to have
-- left, although it was heard of a moment ago.
--
-- KEYS  1 workers     zset    workers by their last sign of life; routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 worker      its name
--       3 run         the name of its conversation
-- TOUCHES worker:<id>
-- FLAGS allow-oom
-- REPLY OK

-- @include now_ms
-- @include runs_of

local root, worker, run = ARGV[1], ARGV[2], ARGV[3]

local key = root .. "worker:" .. worker
local known = redis.call("HDEL", key, "run:" .. run, "drain:" .. run) > 0
if known and not next(runs_of(root, worker)) then
  redis.call("HSET", key, "left", string.format("%.0f", now_ms()))
end
return { "OK" }
