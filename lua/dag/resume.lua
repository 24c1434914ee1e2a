-- resume: READY -> READY
--
-- Resumes a paused DAG: READY tasks that were held back return to their lanes, at most `limit` in
-- each call.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 limit       how many tasks at most in this call
--       4 tries       how many waiting claims to check at most
--       5 begin       1: resume it; 0: continue a resume, unless it was paused again
--       6 request     name of this call; repeated with `begin`, it returns the first reply
--       7 memo_ms     how long the reply is kept for a repeated call
-- FLAGS allow-oom
-- REPLY OK <more> | GONE

local root, dag, limit, tries = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local begin, request, memo_ms = ARGV[5] == "1", ARGV[6], ARGV[7]

local key, held, unfinished = root .. "dag:" .. dag, root .. "held:" .. dag, root .. "unfinished"
local row = redis.call("HMGET", key, "status", "closing")
local kept = begin and calls.remembered(root, request)
if kept then
  return kept
elseif not row[1] or row[1] == "writing" then
  return { "GONE" }
end
if not begin and redis.call("HEXISTS", unfinished, "unhold " .. dag) == 0 then
  return { "OK", 0 }
end
redis.call("HDEL", key, "paused")
redis.call("HDEL", unfinished, "hold " .. dag, "unhold " .. dag)
if row[2] then
  local reply = { "OK", 0 }
  return begin and calls.remember(root, request, memo_ms, reply) or reply
end
local touched = {}
for _, id in ipairs(redis.call("SPOP", held, limit)) do
  local task = redis.call("HMGET", root .. "task:" .. id, "state", "lane", "score")
  if task[1] == "READY" then
    redis.call("HINCRBY", root .. "stats", task[2] .. ":READY", -1)
    lanes.enter(root, task[2], { task[3], id })
    touched[task[2]] = true
  end
end
local more = redis.call("EXISTS", held) == 1
if more then
  redis.call("HSET", unfinished, "unhold " .. dag, 0)
end
more = answer.touched(root, values.now_ms(), touched, tries) or more
local reply = { "OK", more and 1 or 0 }
return begin and calls.remember(root, request, memo_ms, reply) or reply
