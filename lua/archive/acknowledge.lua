-- acknowledge: no move
--
-- Deletes outbox entries whose rows are committed, and lets the keys of their tasks expire. The
-- keys of a dead task stay until it is resolved, those of a task of a DAG until the DAG ends, and
-- those of a DAG until its own row contains its end. An entry that does not exist changes
-- nothing.
--
-- KEYS  1 outbox      stream  ended tasks for the archive
-- ARGV  1 root        prefix of every key of the shard
--       2 group       the consumer group
--       3 ttl         how long the keys of an ended task are kept, ms
--       4 dags        ULIDs of the DAGs whose rows contain their end, separated by spaces
-- EACH  entry         id of an outbox entry
-- FLAGS allow-oom
-- REPLY OK <tasks>

local outbox = KEYS[1]
local root, group, ttl, dags = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local first, stride = 5, 1

local written = {}
for dag in string.gmatch(dags, "%S+") do
  written[dag] = true
end

-- Whether the DAG of a task has ended. A DAG whose row contains this begins to expire, after
-- dag/forget has processed its tasks. A DAG that ended after the archiver read its facts waits for
-- the entry of the task that it ended with.
local function has_ended(dag)
  local row = redis.call("HMGET", root .. "dag:" .. dag, "status", "finished")
  if row[1] and not row[2] then
    return false
  elseif not row[1] or not written[dag] then
    return true
  elseif redis.call("HEXISTS", root .. "unfinished", "forget " .. dag) == 1 then
    redis.call("HSET", root .. "dag:" .. dag, "archived", 1)
  else
    status.expire(root, dag, ttl)
  end
  return true
end

local function expire_task(id, value, ended_dags)
  local key = root .. "task:" .. id
  -- A key of another type must not stop the other tasks.
  local row = redis.pcall("HMGET", key, "state", "flags", "more")
  local more, dag = values.decoded(row[3]), tasks.dag_of(row[2])
  local ended = row[1] == "COMPLETED" or row[1] == "CANCELLED"
  -- A task that was retried since waits for the entry of its new life.
  if not ended or value ~= tostring(more.life or 1) .. " " .. row[1] then
    return
  end
  if dag and ended_dags[dag] == nil then
    ended_dags[dag] = has_ended(dag)
  end
  if dag and not ended_dags[dag] then
    redis.call("HSET", key, "archived", 1)
  else
    tasks.expire(root, id, ttl, row[2], more)
  end
end

local number, ended_dags = 0, {}
for at = first, #ARGV, stride do
  local found = redis.call("XRANGE", outbox, ARGV[at], ARGV[at])
  local fields = found[1] and found[1][2] or {}
  for i = 1, #fields, 2 do
    -- A task that cannot be read keeps its keys and does not stop the others.
    pcall(expire_task, fields[i], fields[i + 1], ended_dags)
  end
  number = number + #fields / 2
  redis.pcall("XACK", outbox, group, ARGV[at])
  redis.call("XDEL", outbox, ARGV[at])
end
-- A negative zero would be sent as "-0", which Redis does not accept as a number.
if number > 0 then
  redis.call("HINCRBY", root .. "stats", "outbox", -number)
end
return { "OK", number }
