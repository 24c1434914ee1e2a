-- counts: no move
--
-- Returns how many tasks are in each state, by lane, and how many READY ones by effective priority.
-- The cost grows with the number of lanes, not with the number of tasks.
--
-- KEYS  1 lanes       hash    signature -> number
-- ARGV  1 root        prefix of every key of the shard
--       2 rates       JSON [[number, rate], ...]: the lanes to count
--       3 bounds      JSON [10, 30, ...]: the bounds between the tiers
-- FLAGS no-writes allow-oom
-- REPLY OK <stats> <paused> [[number, ready of each tier...]]...

local root, rates, bounds = ARGV[1], cjson.decode(ARGV[2]), cjson.decode(ARGV[3])

local minutes = values.now_ms() / 60000
local reply = { "OK", redis.call("HGETALL", root .. "stats"),
  redis.call("SMEMBERS", root .. "paused") }
for _, lane in ipairs(rates) do
  local key, shift, low = root .. "lane:" .. lane[1], lane[2] * minutes, "-inf"
  local row = { lane[1] }
  for _, bound in ipairs(bounds) do
    local high = string.format("%.0f", bound + shift)
    row[#row + 1] = redis.call("ZCOUNT", key, low, "(" .. high)
    low = high
  end
  row[#row + 1] = redis.call("ZCOUNT", key, low, "+inf")
  reply[#reply + 1] = row
end
return reply
