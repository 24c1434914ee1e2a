-- follow: no move
--
-- Returns the DAG that is to be submitted because another has completed. With `done`, records
-- instead that it was submitted, or that it was refused: a refusal is emitted as an event once, and
-- stored with the DAG that has completed.
--
-- KEYS  1 unfinished  hash    operations on DAGs that continue in the background
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         ULID of the DAG that has completed
--       3 done        1: the DAG that follows is committed, or refused
--       4 refused     why it was refused, else ""
--       5 events      maximum length of the events stream
-- FLAGS allow-oom
-- REPLY OK <JSON, "" for none>

local unfinished = KEYS[1]
local root, dag, done, refused, events = ARGV[1], ARGV[2], ARGV[3] == "1", ARGV[4], ARGV[5]

if not done then
  return { "OK", redis.call("GET", root .. "follow:" .. dag) or "" }
end
local key, named = root .. "dag:" .. dag, redis.call("HDEL", unfinished, "follow " .. dag) == 1
if named and refused ~= "" then
  redis.call("HSET", key, "refused", refused)
  event.emit(root, events, "dag.refused", redis.call("HGET", key, "follow"), refused)
end
return { "OK", "" }
