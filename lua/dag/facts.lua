-- facts: no move
--
-- Returns the hashes of DAGs, all at one moment.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
-- EACH  dag           its ULID
-- FLAGS no-writes allow-oom
-- REPLY OK [hash]...; a DAG that is unknown, or still being written, has an empty hash

local root = ARGV[1]
local first, stride = 2, 1

local reply = { "OK" }
for at = first, #ARGV, stride do
  local fields, flat = values.fields_of(root .. "dag:" .. ARGV[at])
  reply[#reply + 1] = fields.status ~= "writing" and flat or {}
end
return reply
