-- set_priority: no move
--
-- Moves a live task to another place in its lane. Its age still counts.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 priority    the new base in millionths of a point, stored with the task
--       4 was         the base of its definition, used where none was set since
--       5 request     names this call: a repetition gets the same reply and changes nothing
--       6 memo_ms     how long that reply is kept
-- FLAGS allow-oom
-- REPLY OK | GONE | STATE <found>

local root, task, priority, was = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local request, memo_ms = ARGV[5], ARGV[6]

local key, row = root .. "task:" .. task, tasks.read(root, task)
local kept = calls.remembered(root, request)
if kept then
  return kept
elseif not row.state or not tasks.is_visible(root, row) then
  return { "GONE" }
elseif row.state == "COMPLETED" or row.state == "CANCELLED" then
  return { "STATE", row.state }
end
local had = redis.call("HGET", key, "priority") or was
local score = string.format("%.0f", row.score + (priority - had))
redis.call("HSET", key, "priority", priority, "score", score)
if row.state == "READY" then
  lanes.rescore(root, row.lane, score, task)
end
return calls.remember(root, request, memo_ms, { "OK" })
