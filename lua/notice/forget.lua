-- forget: no move
--
-- Deletes sinks that no notifier has served for `silent_ms`, with their undelivered notices: a sink
-- that was removed from the configuration must not keep notices forever.
--
-- KEYS  1 sinks       zset    sinks by the last time that a notifier served them
-- ARGV  1 root        prefix of every key of the shard
--       2 silent_ms   how long no notifier has served them
--       3 limit       how many at most
-- FLAGS allow-oom
-- REPLY OK <deleted>

local sinks = KEYS[1]
local root, silent_ms, limit = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local before = string.format("%.0f", values.now_ms() - silent_ms)
local silent = redis.call("ZRANGEBYSCORE", sinks, "-inf", before, "LIMIT", 0, limit)
for _, sink in ipairs(silent) do
  redis.call("ZREM", sinks, sink)
  for _, kind in ipairs({ "sink:", "undelivered:", "wanted:" }) do
    redis.call("DEL", root .. kind .. sink)
  end
end
if #silent > 0 then
  notices.index_wanted(root)
  notices.trim(root)
end
return { "OK", #silent }
