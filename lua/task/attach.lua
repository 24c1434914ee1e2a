-- attach: no move
--
-- Records an artifact of a running task. Only the holder of the lease may; a repetition records
-- nothing.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 token       the claim's token
--       4 artifact    its id
--       5 facts       a line of JSON that contains the id
--       6 most        how many artifacts a task may have
-- FLAGS allow-oom
-- REPLY OK | LOST | FULL

local root, task, token = ARGV[1], ARGV[2], ARGV[3]
local artifact, facts, most = ARGV[4], ARGV[5], tonumber(ARGV[6])

if not lease.held(root, task, token) then
  return { "LOST" }
end
local notes = root .. "notes:" .. task
local lines = redis.call("HGET", notes, "artifacts") or ""
if string.find(lines, artifact, 1, true) then
  return { "OK" }
elseif select(2, string.gsub(lines, "\n", "")) >= most then
  return { "FULL" }
end
redis.call("HSET", notes, "artifacts", lines .. facts .. "\n")
tasks.add_flag(root, task, "n")
return { "OK" }
