-- outputs: no move
--
-- The results of tasks, for a dependent that receives them: of the first ones, as many as fit, and
-- at least one.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       bytes of results in this call
-- EACH  task          its id
-- FLAGS no-writes allow-oom
-- REPLY OK [<state> | GONE, result]...; "" where there is none

local root, limit = ARGV[1], tonumber(ARGV[2])
local first, stride = 3, 1

local reply, left = { "OK" }, limit
for at = first, #ARGV, stride do
  local id = ARGV[at]
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "flags")
  left = left - redis.call("STRLEN", root .. "result:" .. id)
  if left < 0 and at > first then
    break
  end
  local seen = row[1] and tasks.is_visible(root, { state = row[1], flags = row[2] })
  reply[#reply + 1] = seen and row[1] or "GONE"
  reply[#reply + 1] = seen and redis.call("GET", root .. "result:" .. id) or ""
end
return reply
