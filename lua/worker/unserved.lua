-- unserved: no move
--
-- Keeps since when lanes have tasks that no live worker can do, and tells once of each where that
-- lasts; one that is served again is forgotten.
--
-- KEYS  1 unserved    hash    lane -> since when it is, and whether that was told
-- ARGV  1 root        prefix of every key of the shard
--       2 after_ms    how long it may last before it is told
--       3 cap         length of the events stream
-- EACH  lane          its number
--       detail        what a worker would have to offer, for people
-- FLAGS allow-oom
-- REPLY OK <told>

local unserved = KEYS[1]
local root, after_ms, cap = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local first, stride = 4, 2

local now, told, still = values.now_ms(), 0, {}
for at = first, #ARGV, stride do
  local lane, detail = ARGV[at], ARGV[at + 1]
  still[lane] = true
  local kept = redis.call("HGET", unserved, lane)
  local known = kept and tonumber(string.match(kept, "^%d+"))
  local since = known or now
  local due = since <= now - after_ms and not (kept and string.find(kept, " told", 1, true))
  -- It may have been claimed since it was counted.
  local task = due and redis.call("ZRANGE", root .. "lane:" .. lane, 0, 0)[1]
  if task then
    event.emit(root, cap, "task.unserved", task, detail)
    told = told + 1
  end
  if task or not known then
    redis.call("HSET", unserved, lane, string.format("%.0f", since) .. (task and " told" or ""))
  end
end
for _, lane in ipairs(redis.call("HKEYS", unserved)) do
  if not still[lane] then
    redis.call("HDEL", unserved, lane)
  end
end
return { "OK", told }
