-- forget: no move
--
-- Lets the keys of a DAG that has ended expire: those of so many tasks in each call, at last those
-- of the DAG. What the archive has not seen yet is left to it.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 limit       how many tasks at most in this call
--       4 archive     1: what ended is kept until it is archived
--       5 ttl         how long an ended task is kept, ms
-- TOUCHES dag:<dag> members:<dag> follow:<dag> unfinished task:<id> def:<id> result:<id>
--       failures:<id> notes:<id> logs:<id> spawned:<id> tag:<t> ext:<sha>
-- FLAGS allow-oom
-- REPLY OK <more>

-- @include task_row
-- @include forget_later

local root, dag, limit, archive, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local step, unfinished = "forget " .. dag, root .. "unfinished"
local at = tonumber(redis.call("HGET", unfinished, step))
if not at then
  return { "OK", 0 }
end
local page = redis.call("LRANGE", root .. "members:" .. dag, at, at + limit - 1)
for _, id in ipairs(page) do
  local row = task_row(root, id)
  local ended = row.state == "COMPLETED" or row.state == "CANCELLED"
  local kept = archive == "1" and redis.call("HEXISTS", root .. "task:" .. id, "archived") == 0
  if ended and not kept then
    forget_later(root, id, ttl, row.flags, row.more)
  end
end
if #page == limit then
  redis.call("HSET", unfinished, step, at + limit)
  return { "OK", 1 }
end
redis.call("HDEL", unfinished, step)
for _, name in ipairs({ "dag:", "members:", "follow:" }) do
  redis.call("PEXPIRE", root .. name .. dag, ttl)
end
return { "OK", 0 }
