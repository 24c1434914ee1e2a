-- list: no move
--
-- Returns a page of the types and "@<tenant>" that are slowed down, or were and no claim has
-- followed; one may occur twice.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 cursor      "0", or the cursor that the page before returned
--       3 limit       about how many members to check
-- FLAGS no-writes allow-oom
-- REPLY OK <cursor, "0" at the end> <now> [what, until, span]...

local root, cursor, limit = ARGV[1], ARGV[2], ARGV[3]

local page = redis.call("SSCAN", root .. "slowed", cursor, "COUNT", limit)
local reply = { "OK", page[1], string.format("%.0f", values.now_ms()) }
for _, what in ipairs(page[2]) do
  local row = redis.call("HMGET", root .. "slow:" .. what, "until", "span")
  if row[1] then
    reply[#reply + 1] = { what, row[1], row[2] }
  end
end
return reply
