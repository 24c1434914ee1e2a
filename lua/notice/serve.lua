-- serve: no move
--
-- Registers that a notifier delivers to a sink. A new sink begins at the end of the stream of
-- notices. Events that any sink wants are added to that stream from now on. Notifiers of one sink
-- may be configured with different events: the sink wants those that any of them has asked for
-- lately.
--
-- KEYS  1 notices     stream  events that are not delivered to all sinks yet
--       2 noticed     set     names of the events that some sink wants
--       3 sinks       zset    sinks by the last time that a notifier served them
-- ARGV  1 root        prefix of every key of the shard
--       2 sink        its name
--       3 wants       names of events, separated by blanks
--       4 lately_ms   how long the events of one notifier count beside those of others
-- FLAGS allow-oom
-- REPLY OK

local noticed, sinks = KEYS[2], KEYS[3]
local root, sink, wants, lately_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local key, wanted, now = root .. "sink:" .. sink, root .. "wanted:" .. sink, values.now_ms()
local row = redis.call("HMGET", key, "last", "wants")
if not row[1] then
  local newest = redis.call("XREVRANGE", KEYS[1], "+", "-", "COUNT", 1)[1]
  redis.call("HSET", key, "last", newest and newest[1] or "0-0")
end
for name in string.gmatch(wants, "%S+") do
  redis.call("ZADD", wanted, string.format("%.0f", now), name)
end
redis.call("ZREMRANGEBYSCORE", wanted, "-inf", string.format("(%.0f", now - lately_ms))
local names = redis.call("ZRANGE", wanted, 0, -1)
table.sort(names)
local all = table.concat(names, " ")
redis.call("HSET", key, "wants", all)
redis.call("ZADD", sinks, string.format("%.0f", now), sink)
if row[2] ~= all or redis.call("EXISTS", noticed) == 0 then
  notices.index_wanted(root)
end
return { "OK" }
