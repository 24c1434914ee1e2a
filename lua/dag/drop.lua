-- drop: no move
--
-- Deletes a DAG that was never committed because it was refused or its producer has failed: at most
-- `limit` tasks and edges in each call, and finally the DAG itself. Until then nothing can be
-- written to it.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 limit       how many tasks and edges in this call; a task that does not fit is left to
--                     the next
--       4 idle_ms     how long nothing may have been written to it; 0: its producer calls
-- FLAGS allow-oom
-- REPLY OK <more> | STATE <found>

local root, dag, limit, idle_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local key = root .. "dag:" .. dag
local status = redis.call("HGET", key, "status")
local written = redis.call("ZSCORE", root .. "writing", dag)
if status and status ~= "writing" then
  return { "STATE", status }
elseif written and tonumber(written) > values.now_ms() - idle_ms then
  return { "OK", 0 }
end
local members, left, number = root .. "members:" .. dag, limit, 0
local id = redis.call("LINDEX", members, 0)
while id do
  local edge_count = redis.call("HGET", root .. "task:" .. id, "sole") == "1" and 1
    or redis.call("SCARD", root .. "waits:" .. id)
  if number > 0 and edge_count >= left then
    break
  end
  edges.remove_from_all(root, id, "waits", limit)
  if edge_count > limit then
    break
  end
  create.undo(root, id, tasks.read(root, id))
  redis.call("LPOP", members)
  left, number = left - edge_count - 1, number + 1
  id = redis.call("LINDEX", members, 0)
end
if status then
  -- Refuses a new submit: with it, the DAG would consist of old and new tasks.
  redis.call("HSET", key, "dropping", 1)
  redis.call("HINCRBY", key, "total", string.format("%d", -number))
  redis.call("HINCRBY", key, "open", string.format("%d", -number))
end
if id then
  return { "OK", 1 }
end
redis.call("DEL", key, root .. "fresh:" .. dag, root .. "follow:" .. dag)
redis.call("ZREM", root .. "writing", dag)
return { "OK", 0 }
