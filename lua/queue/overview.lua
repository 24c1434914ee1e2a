-- overview: no move
--
-- Returns what a live view shows beside the counts. The cost grows with the number of lanes and
-- workers and with the limits, not with the number of tasks.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 rates       JSON [[number, rate], ...]: the lanes to check
--       3 bounds      JSON [10, 30, ...]: the bounds between the tiers
--       4 workers     how many workers at most, by last heartbeat
--       5 leases      how many leases at most, those of the oldest entries
--       6 events      how many events at most, the newest
-- FLAGS no-writes allow-oom
-- REPLY OK <now> [leader] [[number, entry of the next task of each tier...]] [worker, seen ms, ...]
--       [[consumer, leases]] [[task, state, lane, holder]] [[entry, [name, value, ...]]]

local ready = KEYS[1]
local root, rates, bounds = ARGV[1], cjson.decode(ARGV[2]), cjson.decode(ARGV[3])
local workers, leases, events = ARGV[4], ARGV[5], ARGV[6]

local now = values.now_ms()

local heads = {}
for _, lane in ipairs(rates) do
  local row, low = { lane[1] }, "-inf"
  for at = 1, #bounds + 1 do
    local high = bounds[at] and string.format("%.0f", bounds[at] + lane[2] * now / 60000)
    local id = redis.call("ZRANGE", root .. "lane:" .. lane[1], low, high and "(" .. high or "+inf",
      "BYSCORE", "LIMIT", 0, 1)[1]
    row[#row + 1] = id and redis.call("HGET", root .. "task:" .. id, "entry") or nil
    low = high
  end
  heads[#heads + 1] = row
end

local consumers = {}
local known = redis.pcall("XINFO", "CONSUMERS", ready, "workers")
for _, facts in ipairs(known.err and {} or known) do
  -- name <name> pending <n> idle <ms>
  consumers[#consumers + 1] = { facts[2], facts[4] }
end

local held = {}
local page = redis.pcall("XPENDING", ready, "workers", "-", "+", leases)
for _, lease in ipairs(page.err and {} or page) do
  local entry = redis.call("XRANGE", ready, lease[1], lease[1])[1]
  local id = entry and entry[2][2] or ""
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "lane", "holder")
  held[#held + 1] = { id, row[1] or "", row[2] or "0", row[3] or "" }
end

return { "OK", now, redis.call("HGETALL", root .. "leader"), heads,
  redis.call("ZRANGE", root .. "workers", 0, workers - 1, "REV", "WITHSCORES"), consumers, held,
  redis.call("XREVRANGE", root .. "events", "+", "-", "COUNT", events) }
