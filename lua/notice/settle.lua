-- settle: no move
--
-- Records the outcome of notices that were taken for a sink: delivered or discarded, or to be
-- retried. A notice is deleted when every sink has had it. A repeated call, or a call of a notifier
-- from which the notice was taken meanwhile, postpones nothing; a delivery counts, whichever
-- notifier made it.
--
-- KEYS  1 notices     stream  events that are not delivered to all sinks yet
-- ARGV  1 root        prefix of every key of the shard
--       2 sink        its name
--       3 taker       the name under which they were taken
-- EACH  notice        its entry
--       delay         ms until the retry; "" where it was delivered or discarded
-- FLAGS allow-oom
-- REPLY OK <settled by this call>

local root, sink, taker = ARGV[1], ARGV[2], ARGV[3]
local first, stride = 4, 2

local key, undelivered = root .. "sink:" .. sink, root .. "undelivered:" .. sink
local now, settled, removed = values.now_ms(), 0, false
for at = first, #ARGV, stride do
  local notice, delay = ARGV[at], ARGV[at + 1]
  if delay == "" then
    redis.call("HDEL", key, notice)
    local known = redis.call("ZREM", undelivered, notice)
    settled, removed = settled + known, removed or known == 1
  else
    local tries, holder = string.match(redis.call("HGET", key, notice) or "", "^(%d+) (.*)$")
    if holder == taker then
      redis.call("HSET", key, notice, tries .. " ")
      redis.call("ZADD", undelivered, string.format("%.0f", now + delay), notice)
      settled = settled + 1
    end
  end
end
if removed then
  notices.trim(root)
end
return { "OK", settled }
