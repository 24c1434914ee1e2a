-- drop: no move
--
-- Takes back a DAG that was never committed, because it was refused or its producer is gone: so
-- many tasks in each call, and at last the DAG itself. Nothing of it is left.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 limit       how many tasks at most in this call
--       4 idle_ms     how long nothing may have been written to it; 0: it is the writer who asks
-- TOUCHES dag:<dag> members:<dag> fresh:<dag> follow:<dag> writing task:<id> def:<id> waits:<id>
--       blocked dependents:<id> heirs:<id> stats ext:<sha> tag:<t> deadlines
-- FLAGS allow-oom
-- REPLY OK <more> | STATE <found>

-- @include now_ms
-- @include task_row
-- @include uncreate_task

local root, dag, limit, idle_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local key = root .. "dag:" .. dag
local status = redis.call("HGET", key, "status")
local written = redis.call("ZSCORE", root .. "writing", dag)
if status and status ~= "writing" then
  return { "STATE", status }
elseif written and tonumber(written) > now_ms() - idle_ms then
  return { "OK", 0 }
end
local page = redis.call("LPOP", root .. "members:" .. dag, limit) or {}
for _, id in ipairs(page) do
  uncreate_task(root, id, task_row(root, id))
end
-- Its producer may send it again before all of it is gone: what is written must be what is counted.
if status and #page > 0 then
  redis.call("HINCRBY", key, "total", -#page)
  redis.call("HINCRBY", key, "open", -#page)
end
if redis.call("EXISTS", root .. "members:" .. dag) == 1 then
  return { "OK", 1 }
end
redis.call("DEL", key, root .. "fresh:" .. dag, root .. "follow:" .. dag)
redis.call("ZREM", root .. "writing", dag)
return { "OK", 0 }
