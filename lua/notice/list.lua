-- list: no move
--
-- Returns the state of each sink: when a notifier last served it, and the oldest notice that is not
-- delivered to it.
--
-- KEYS  1 notices     stream  events that are not delivered to all sinks yet
--       2 sinks       zset    sinks by the last time that a notifier served them
-- ARGV  1 root        prefix of every key of the shard
--       2 page        how many new notices of each sink to check
-- FLAGS no-writes allow-oom
-- REPLY OK <now> [[sink, served ms, taken and not delivered, oldest undelivered notice or ""]]...

local notices, sinks = KEYS[1], KEYS[2]
local root, page = ARGV[1], ARGV[2]

local reply = { "OK", string.format("%.0f", values.now_ms()) }
local known = redis.call("ZRANGE", sinks, 0, -1, "WITHSCORES")
for at = 1, #known, 2 do
  local sink, served, oldest = known[at], known[at + 1], nil
  local row = redis.call("HMGET", root .. "sink:" .. sink, "last", "wants")
  local wants = " " .. (row[2] or "") .. " "
  for _, entry in ipairs(redis.call("XRANGE", notices, "(" .. (row[1] or "0-0"), "+",
    "COUNT", page)) do
    local wanted = string.find(wants, " " .. entry[2][2] .. " ", 1, true)
    oldest = oldest or (wanted and entry[1]) or nil
  end
  local taken = redis.call("ZRANGE", root .. "undelivered:" .. sink, 0, -1)
  for _, notice in ipairs(taken) do
    oldest = (not oldest or values.precedes(notice, oldest)) and notice or oldest
  end
  reply[#reply + 1] = { sink, served, #taken, oldest or "" }
end
return reply
