-- acknowledge: no move
--
-- The rows of these outbox entries are committed: the entries go, and the keys of the tasks in
-- them begin to expire. Dead ones stay until they are resolved, those of a DAG until it ends, and
-- what is kept of the DAG itself until its row says so.
--
-- KEYS  1 outbox      stream  what has ended
-- ARGV  1 root        prefix of every key of the shard
--       2 group       the consumer group
--       3 ttl         how long an ended task is kept, ms
--       4 dags        ULIDs of the DAGs whose rows say that they have ended, apart by spaces
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

-- Whether the DAG of a task is over. If the archive has seen that, it goes with its tasks; one that
-- has ended since its facts were read waits for the entry that it ended with.
local function is_over(dag)
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

local function let_go(id, value, over)
  local key = root .. "task:" .. id
  -- Stored keys may be anyone's: one of another type must not hold back all others.
  local row = redis.pcall("HMGET", key, "state", "flags", "more")
  local more, dag = values.decoded(row[3]), tasks.dag_of(row[2])
  local ended = row[1] == "COMPLETED" or row[1] == "CANCELLED"
  -- One that has lived again since has an entry of its own to wait for.
  if not ended or value ~= tostring(more.life or 1) .. " " .. row[1] then
    return
  end
  if dag and over[dag] == nil then
    over[dag] = is_over(dag)
  end
  if dag and not over[dag] then
    redis.call("HSET", key, "archived", 1)
  else
    tasks.expire(root, id, ttl, row[2], more)
  end
end

local number, over = 0, {}
for at = first, #ARGV, stride do
  local found = redis.call("XRANGE", outbox, ARGV[at], ARGV[at])
  local fields = found[1] and found[1][2] or {}
  for i = 1, #fields, 2 do
    -- One of which nothing can be made keeps its keys, and holds back no other.
    pcall(let_go, fields[i], fields[i + 1], over)
  end
  number = number + #fields / 2
  redis.pcall("XACK", outbox, group, ARGV[at])
  redis.call("XDEL", outbox, ARGV[at])
end
-- Less nothing would be sent as "-0", which Redis does not take for a number.
if number > 0 then
  redis.call("HINCRBY", root .. "stats", "outbox", -number)
end
return { "OK", number }
