-- step: no move
--
-- Stores the result of a step of a running task and returns it. A result that is stored under its
-- name already stays and is returned. Without a result, only reads. Only the holder of the lease
-- may.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 token       the claim's token
--       4 name        of the step
--       5 result      JSON, "" to read what is stored
--       6 most        how many steps a task may have
-- FLAGS allow-oom
-- REPLY OK <stored, "" for nothing> | LOST | FULL

local root, task, token = ARGV[1], ARGV[2], ARGV[3]
local name, result, most = ARGV[4], ARGV[5], tonumber(ARGV[6])

if not lease.held(root, task, token) then
  return { "LOST" }
end
local steps = root .. "steps:" .. task
local kept = redis.call("HGET", steps, name)
if kept or result == "" then
  return { "OK", kept or "" }
elseif redis.call("HLEN", steps) >= most then
  return { "FULL" }
end
redis.call("HSET", steps, name, result)
tasks.add_flag(root, task, "k")
return { "OK", result }
