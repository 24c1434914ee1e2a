-- mentions: no move
--
-- Returns the ids of artifacts that occur anywhere in a page of the shard's keys: in definitions,
-- results, notes and steps. It is a move, so that it runs on the node that has the shard.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 cursor      "0", or the cursor that the page before returned
--       3 limit       about how many keys to check
-- FLAGS no-writes allow-oom
-- REPLY OK <cursor, "0" at the end> [id of an artifact]...

local root, cursor, limit = ARGV[1], ARGV[2], ARGV[3]

local function texts_of(key)
  local kind = redis.call("TYPE", key).ok
  if kind == "string" then
    return { redis.call("GET", key) }
  elseif kind ~= "hash" then
    return {}
  end
  local fields, flat = values.fields_of(key)
  -- A short definition is stored in pieces, and an id may be split between two of them.
  flat[#flat + 1] = fields.def0 and definition.read(root, "", fields)
  return flat
end

local page = redis.call("SCAN", cursor, "MATCH", root .. "*", "COUNT", limit)
local reply, seen = { "OK", page[1] }, {}
for _, key in ipairs(page[2]) do
  for _, text in ipairs(texts_of(key)) do
    for id in string.gmatch(text, "art_%w+") do
      if not seen[id] then
        seen[id] = true
        reply[#reply + 1] = id
      end
    end
  end
end
return reply
