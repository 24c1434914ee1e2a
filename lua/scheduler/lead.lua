-- lead: no move
--
-- Takes or renews the leadership of the shard for `ttl_ms`. The leader keeps it until its term ends
-- or it yields; each new term has the next epoch.
--
-- KEYS  1 leader      hash    owner, epoch, until_ms, ttl_ms; never expires, so that epochs rise
-- ARGV  1 owner       the caller
--       2 ttl_ms      how long a term lasts unless it is renewed
-- FLAGS allow-oom
-- REPLY OK <owner of the term> <epoch> <ms left> <server's ms>

local leader = KEYS[1]
local owner, ttl_ms = ARGV[1], tonumber(ARGV[2])

local now = values.now_ms()
local row = redis.call("HMGET", leader, "owner", "epoch", "until_ms", "ttl_ms")
local epoch, left = tonumber(row[2] or "0"), tonumber(row[3] or "0") - now
local at = string.format("%.0f", now)
if left > 0 and row[1] ~= owner then
  local longest = tonumber(row[4])
  if left > longest then
    -- The clock stepped back: without this the term would be longer by the length of the step.
    left = longest
    redis.call("HSET", leader, "until_ms", string.format("%.0f", now + left))
  end
  return { "OK", row[1], epoch, left, at }
end
if left <= 0 then
  epoch = epoch + 1
end
redis.call("HSET", leader, "owner", owner, "epoch", epoch, "ttl_ms", ttl_ms,
  "until_ms", string.format("%.0f", now + ttl_ms))
return { "OK", owner, epoch, ttl_ms, at }
