-- serve: no move
--
-- A notifier delivers to this sink: it has a place in the stream of notices, the first time behind
-- all that is there; and what all sinks want together becomes a notice from now on. Notifiers of
-- one sink may have been told different events: it wants what one of them has lately said.
--
-- KEYS  1 notices     stream  what sinks are still to be told
--       2 noticed     set     names of the events that some sink wants
--       3 sinks       zset    sinks by the last time that a notifier served them
-- ARGV  1 root        prefix of every key of the shard
--       2 sink        its name
--       3 wants       names of events, blanks between
--       4 lately_ms   how long what a notifier has said holds beside what others say
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
