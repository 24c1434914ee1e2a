-- take: no move
--
-- Returns the notices that a notifier has to deliver to a sink, and reserves them for it for a
-- time: first those to be retried, then new ones. A repeated call under the same taker returns the
-- same. Notices that the sink does not want are skipped.
--
-- KEYS  1 notices     stream  events that are not delivered to all sinks yet
-- ARGV  1 root        prefix of every key of the shard
--       2 sink        its name
--       3 taker       a name for this call only
--       4 lease_ms    how long no other notifier gets them
--       5 limit       how many at most
--       6 window      how many may be taken and not delivered, over all notifiers
--       7 page        how many new notices to check
-- FLAGS allow-oom
-- REPLY OK <more> [[notice, tries, name, value, ...]]... | GONE

local root, sink, taker, lease_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local limit, window, page = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]

local key, undelivered = root .. "sink:" .. sink, root .. "undelivered:" .. sink
local row = redis.call("HMGET", key, "last", "wants")
if not row[1] then
  return { "GONE" }
end

local now = values.now_ms()
local open = notices.undelivered(key, undelivered, now, taker)
local picked, fresh, more = open.mine, false, false
if #picked == 0 then
  local room = math.min(limit - #open.due, window - open.kept - #open.due)
  picked, fresh = open.due, true
  more = #picked > limit
  if room > 0 then
    more = notices.read_new(key, KEYS[1], row, { picked = picked, room = room, page = page })
  end
end

local reply = { "OK", more and 1 or 0 }
for at = 1, math.min(#picked, limit) do
  local notice, tries = picked[at][1], picked[at][2] + (fresh and 1 or 0)
  local found = notices.row(root, notice, tries)
  if not found then
    redis.call("ZREM", undelivered, notice)
    redis.call("HDEL", key, notice)
  elseif fresh then
    redis.call("ZADD", undelivered, string.format("%.0f", now + lease_ms), notice)
    redis.call("HSET", key, notice, tries .. " " .. taker)
  end
  reply[#reply + 1] = found or nil
end
if redis.call("HGET", key, "last") ~= row[1] then
  notices.trim(root)
end
return reply
