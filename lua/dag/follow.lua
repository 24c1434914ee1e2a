-- follow: no move
--
-- The DAG that is to be submitted because another has completed, or the word that it was; or that
-- it cannot be, which is told once and kept with the one that it follows.
--
-- KEYS  1 unfinished  hash    what others must go on with
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         the ULID of the one that has completed
--       3 done        1: the one that follows is committed, or refused
--       4 refused     "" or why
--       5 events      length of the events stream
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
