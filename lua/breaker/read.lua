-- read: no move
--
-- Returns the breakers of all types that are not closed, or that have failed and not completed
-- since.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
-- FLAGS no-writes allow-oom
-- REPLY OK <now> [type, 1 while its probe runs, field, value, ...]...

local root = ARGV[1]

local types = redis.call("SMEMBERS", root .. "breakers")
table.sort(types)
local reply = { "OK", string.format("%.0f", values.now_ms()) }
for _, type in ipairs(types) do
  local fields = redis.call("HGETALL", root .. "breaker:" .. type)
  local probe = redis.call("HGET", root .. "breaker:" .. type, "probe")
  local probing = breaker.probe_running(root, probe)
  reply[#reply + 1] = { type, probing and 1 or 0, unpack(fields) }
end
return reply
