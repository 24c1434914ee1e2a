-- promote: RETRYING | PENDING -> READY
--
-- Makes READY what has waited long enough: retries, parked tasks, and scheduled ones that wait
-- for nothing else. With `only`, that one task at once, whatever its time.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       how many at most
--       3 tries       how many parked claims may be looked at
--       4 only        "" or the id of one task; behind it the request that asks for it, so that
--                     the same again gets the same answer
-- TOUCHES task:<id> delayed waits:<id> blocked lane:<n> stats + what answer_waiting touches
-- FLAGS allow-oom
-- REPLY OK <more> <promoted> <next due ms, 0 for none> | GONE | STATE <found>

-- @include now_ms
-- @include promote_task
-- @include answer_touched

local root, limit, tries, only = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local now, touched, promoted = now_ms(), {}, 0
local due
local one, request = string.match(only, "^(%S+) ?(%S*)$")
if one then
  local state, hurried = unpack(redis.call("HMGET", root .. "task:" .. one, "state", "hurried"))
  if request ~= "" and hurried == request then
    return { "OK", 0, 1, "0" }
  end
  if not state then
    return { "GONE" }
  elseif state ~= "RETRYING" and state ~= "PENDING" and state ~= "READY" then
    return { "STATE", state }
  end
  due = redis.call("ZSCORE", root .. "delayed", one) and { one } or {}
  if request ~= "" and #due > 0 then
    redis.call("HSET", root .. "task:" .. one, "hurried", request)
  end
else
  due = redis.call("ZRANGEBYSCORE", root .. "delayed", "-inf", now, "LIMIT", 0, limit)
end
for _, id in ipairs(due) do
  local lane = promote_task(root, id)
  if lane then
    touched[lane] = true
  end
  -- One that was asked for and still waits for something else has its time behind it as well.
  if lane or one then
    promoted = promoted + 1
  end
end
local more = answer_touched(root, now, touched, tries) or (not one and #due == limit)
local following = redis.call("ZRANGE", root .. "delayed", 0, 0, "WITHSCORES")
return { "OK", more and 1 or 0, promoted, following[2] or "0" }
