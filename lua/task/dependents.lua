-- dependents: no move
--
-- The tasks that wait for a task, for its completion or for any end of it.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 limit       how many are listed, at least one
-- FLAGS no-writes allow-oom
-- REPLY OK <how many> [id]...

local root, task, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

local dependents, triggered = root .. "dependents:" .. task, root .. "heirs:" .. task
local reply = { "OK", redis.call("ZCARD", dependents) + redis.call("HLEN", triggered) }
local sole = redis.call("HGET", root .. "task:" .. task, "down")
if sole then
  reply[2] = reply[2] + 1
  reply[3] = sole
end
local pages = { redis.call("ZRANGE", dependents, 0, limit - 1),
  redis.call("HRANDFIELD", triggered, limit) }
for _, page in ipairs(pages) do
  for _, id in ipairs(page) do
    if #reply < limit + 2 then
      reply[#reply + 1] = id
    end
  end
end
return reply
