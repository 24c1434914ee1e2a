-- unserved: no move
--
-- Records since when lanes have tasks that no live worker can run, and emits an event once for each
-- where that lasts longer than `after_ms`. The record of a lane that is served again is deleted.
--
-- KEYS  1 unserved    hash    lane -> since when it is unserved, and ` told` once reported
-- ARGV  1 root        prefix of every key of the shard
--       2 after_ms    how long it may last before it is reported
--       3 cap         maximum length of the events stream
-- EACH  lane          its number
--       detail        what a worker would have to offer, in words
-- FLAGS allow-oom
-- REPLY OK <reported now>

local unserved = KEYS[1]
local root, after_ms, cap = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local first, stride = 4, 2

local now, reported, still = values.now_ms(), 0, {}
for at = first, #ARGV, stride do
  local lane, detail = ARGV[at], ARGV[at + 1]
  still[lane] = true
  local kept = redis.call("HGET", unserved, lane)
  local known = kept and tonumber(string.match(kept, "^%d+"))
  local since = known or now
  local due = since <= now - after_ms and not (kept and string.find(kept, " told", 1, true))
  -- The task may have been claimed since it was counted.
  local task = due and redis.call("ZRANGE", root .. "lane:" .. lane, 0, 0)[1]
  if task then
    event.emit(root, cap, "task.unserved", task, detail)
    reported = reported + 1
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
return { "OK", reported }
