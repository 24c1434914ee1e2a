-- settle: no move
--
-- What became of notices that were taken for a sink: delivered or given up, or to be tried again.
-- A notice goes when every sink has had it. Sent again, or by one from whom it was taken
-- meanwhile, it postpones nothing; delivered is delivered, whoever did it.
--
-- KEYS  1 notices     stream  what sinks are still to be told
-- ARGV  1 root        prefix of every key of the shard
--       2 sink        its name
--       3 taker       the name under which they were taken
-- EACH  notice        its entry
--       delay         ms until it is tried again; "" where it was delivered or given up
-- FLAGS allow-oom
-- REPLY OK <how many this call has settled>

local root, sink, taker = ARGV[1], ARGV[2], ARGV[3]
local first, stride = 4, 2

local key, undelivered = root .. "sink:" .. sink, root .. "undelivered:" .. sink
local now, settled, gone = values.now_ms(), 0, false
for at = first, #ARGV, stride do
  local notice, delay = ARGV[at], ARGV[at + 1]
  if delay == "" then
    redis.call("HDEL", key, notice)
    local known = redis.call("ZREM", undelivered, notice)
    settled, gone = settled + known, gone or known == 1
  else
    local tries, holder = string.match(redis.call("HGET", key, notice) or "", "^(%d+) (.*)$")
    if holder == taker then
      redis.call("HSET", key, notice, tries .. " ")
      redis.call("ZADD", undelivered, string.format("%.0f", now + delay), notice)
      settled = settled + 1
    end
  end
end
if gone then
  notices.trim(root)
end
return { "OK", settled }
