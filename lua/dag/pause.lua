-- pause: READY -> READY
--
-- Pauses a DAG: none of its tasks can be claimed. READY tasks are taken out of their lanes, at most
-- `limit` in each call, and a claim takes out those that it finds meanwhile. Running tasks
-- continue.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 limit       how many tasks to check in this call
--       4 begin       1: pause it; 0: continue a pause that was begun
--       5 request     name of this call; repeated with `begin`, it returns the first reply
--       6 memo_ms     how long the reply is kept for a repeated call
-- FLAGS allow-oom
-- REPLY OK <more> | GONE | STATE <status>

local root, dag, limit, begin = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == "1"
local request, memo_ms = ARGV[5], ARGV[6]

local key, unfinished = root .. "dag:" .. dag, root .. "unfinished"
local row = redis.call("HMGET", key, "status", "finished", "paused")
local kept = begin and calls.remembered(root, request)
if kept then
  return kept
elseif not row[1] or row[1] == "writing" then
  return { "GONE" }
elseif row[2] and begin then
  return { "STATE", row[1] }
end
if begin and not row[3] then
  redis.call("HSET", key, "paused", 1)
  redis.call("HSET", unfinished, "hold " .. dag, 0)
  redis.call("HDEL", unfinished, "unhold " .. dag)
end
local page, more = status.next_page(root, dag, "hold", limit)
for _, id in ipairs(page or {}) do
  local task = redis.call("HMGET", root .. "task:" .. id, "state", "lane")
  if task[1] == "READY" and lanes.leave(root, task[2], id) == 1 then
    paused.hold(root, dag, id, task[2])
  end
end
local reply = { "OK", more and 1 or 0 }
return begin and calls.remember(root, request, memo_ms, reply) or reply
