-- explain: no move
--
-- The position of a task among those that can be claimed, or its position if it were READY now, in
-- the exact order of a claim over all lanes. The cost grows with the lanes, not with the tasks.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 lanes       JSON [[number, rate], ...]: all lanes
-- FLAGS no-writes allow-oom
-- REPLY OK <now> <state> <score> <lane> <priority or ""> <path boost> <1: it is in its lane>
--       <before it in its lane> <before it in all lanes> | GONE | LANES

local root, task, lanes = ARGV[1], ARGV[2], cjson.decode(ARGV[3])

local row = redis.call("HMGET", root .. "task:" .. task,
  "state", "score", "lane", "priority", "rank")
local state, score, own = row[1], tonumber(row[2]), tonumber(row[3])
if not state or not score then
  return { "GONE" }
end
local rates = {}
for _, lane in ipairs(lanes) do
  rates[lane[1]] = lane[2]
end
local rate = own and rates[own]
if not rate then
  -- The task entered a lane that was created meanwhile.
  return { "LANES" }
end

local now, before, ahead = values.now_ms(), 0, 0
local minutes = now / 60000
for _, lane in ipairs(lanes) do
  -- Where tasks age at the same rate, their scores are compared directly: nothing is rounded.
  local bound = lane[2] == rate and string.format("%.0f", score)
    or string.format("%.17g", score + (lane[2] - rate) * minutes)
  local number = why.count_before(root, lane[1], bound, task)
  before = lane[1] == own and number or before
  ahead = ahead + number
end
return { "OK", string.format("%.0f", now), state, row[2], row[3], row[4] or "", row[5] or "0",
  redis.call("ZSCORE", root .. "lane:" .. own, task) and 1 or 0, before, ahead }
