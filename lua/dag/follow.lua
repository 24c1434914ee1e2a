-- follow: no move
--
-- The DAG that is to be submitted because another has completed, or the word that it was.
--
-- KEYS  1 unfinished  hash    what others must go on with
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         the ULID of the one that has completed
--       3 done        1: the one that follows is committed
-- TOUCHES follow:<dag>
-- FLAGS allow-oom
-- REPLY OK <JSON, "" for none>

local unfinished = KEYS[1]
local root, dag, done = ARGV[1], ARGV[2], ARGV[3] == "1"

if done then
  redis.call("HDEL", unfinished, "follow " .. dag)
  return { "OK", "" }
end
return { "OK", redis.call("GET", root .. "follow:" .. dag) or "" }
