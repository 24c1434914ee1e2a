-- claim: READY -> CLAIMED | RUNNING
--
-- Gives a worker the best tasks it may serve, in exact effective order, as leases. With nothing
-- left to give and time to wait, the claim is parked: whoever brings work answers it by mail.
-- Sent again with its `seq`, it is a pure read of what it gave and is still held.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
--       2 waiter      who asks: one conversation with a rising seq
--       3 seq         number of this claim in it
--       4 consumer    the worker that will own the leases
--       5 bits        128 random bits: token = <epoch>:<bits>
--       6 n           free slots
--       7 start       1: hand them out RUNNING
--       8 version     the lane version that `lanes` was made from
--       9 lanes       JSON [[number, rate, type, alone], ...] the worker may serve
--      10 profile     name of that set of lanes
--      11 box         where mail for this waiter goes
--      12 park_ms     how long to wait when there is nothing; 0: not at all
--      13 handoff_ms  how soon a mailed task must be started
--      14 memo_ms     how long the memo is kept; 0: for ever
-- TOUCHES task:<id> def:<id> lane:<n> lanes stats waiter:<w> worker:<id> workers paused
--       waiting:<p> profile:<p> profiles:<n> handoffs orphans idem:<sha>
-- FLAGS allow-oom
-- REPLY OK <version> <wait_ms> [row]... | STALE | LANES <version> [signature number]...

-- @include now_ms
-- @include waiter_of
-- @include still_held rarely
-- @include take
-- @include named
-- @include park_claim rarely
-- @include handoff

local root, waiter, seq, consumer, bits = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local n, start, version, lanes, profile = tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local box, park_ms, handoff_ms, memo_ms = ARGV[11], tonumber(ARGV[12]), ARGV[13], ARGV[14]

local now = now_ms()
local record = waiter_of(root, waiter)
local last = tonumber(record.seq or "0")
if seq < last then
  return { "STALE" }
end
if seq == last then
  local held = still_held(root, record.given .. " " .. record.mailed)
  return { "OK", version, math.max(0, tonumber(record["until"]) - now), unpack(held) }
end
local known = redis.call("HGET", root .. "lanes", "version") or "0"
if known ~= version then
  return { "LANES", known, unpack(redis.call("HGETALL", root .. "lanes")) }
end

local mailed = record.mailed or ""
local carried = mailed ~= "" and still_held(root, mailed) or {}
for _, row in ipairs(carried) do
  redis.call("ZREM", root .. "handoffs", handoff(row[1], row[2]))
end
if record.profile then
  redis.call("ZREM", root .. "waiting:" .. record.profile, waiter)
end

local wanted = cjson.decode(lanes)
local given = take(root, now, wanted, n - #carried,
  { consumer = consumer, bits = bits, started = start == "1" })
local short = n - #carried - #given
for _, row in ipairs(carried) do
  given[#given + 1] = row
end

local parks = park_ms > 0 and short > 0
local memo = root .. "waiter:" .. waiter
redis.call("HSET", memo, "seq", seq, "bits", bits, "consumer", consumer, "given", named(given),
  "mailed", "", "n", short, "profile", profile, "box", box, "handoff", handoff_ms,
  "until", parks and now + park_ms or 0)
if memo_ms ~= "0" then
  redis.call("PEXPIRE", memo, memo_ms)
end
redis.call("ZADD", root .. "workers", now, consumer)
if parks then
  park_claim(root, now, waiter, { profile = profile }, lanes, wanted, park_ms * 12)
end
return { "OK", known, parks and park_ms or 0, unpack(given) }
