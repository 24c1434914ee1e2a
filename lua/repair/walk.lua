-- walk: no move
--
-- Returns a page of the names of the shard's keys of some kinds. It is a move, so that it runs on
-- the node that has the shard.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 kinds       JSON [kind, ...]: the first word of a key after the root
--       3 cursor      "0", or the cursor that the page before returned
--       4 limit       about how many keys to check
-- FLAGS no-writes allow-oom
-- REPLY OK <cursor, "0" at the end> [name after the root]...

local root, kinds, cursor, limit = ARGV[1], cjson.decode(ARGV[2]), ARGV[3], ARGV[4]

local wanted = {}
for _, kind in ipairs(kinds) do
  wanted[kind] = true
end
local page = redis.call("SCAN", cursor, "MATCH", root .. "*", "COUNT", limit)
local reply = { "OK", page[1] }
for _, key in ipairs(page[2]) do
  local name = string.sub(key, #root + 1)
  if wanted[string.match(name, "^[^:]+")] then
    reply[#reply + 1] = name
  end
end
return reply
