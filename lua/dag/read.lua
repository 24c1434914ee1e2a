-- read: no move
--
-- Returns a DAG at one moment, and a page of the ids of its tasks in the order they were written.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 from        position of the first id
--       4 limit       how many ids, at least one
-- FLAGS no-writes allow-oom
-- REPLY OK <hash> <ids> | GONE

local root, dag, from, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local fields, flat = values.fields_of(root .. "dag:" .. dag)
if not fields.status or fields.status == "writing" then
  return { "GONE" }
end
local page = redis.call("LRANGE", root .. "members:" .. dag, from, from + limit - 1)
return { "OK", flat, page }
