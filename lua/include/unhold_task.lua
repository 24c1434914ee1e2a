-- @include dag_of
-- Takes a READY task out of those that are held back with their DAG or that it cannot pay. Whether
-- it was there.
local function unhold_task(root, id, lane)
  local dag = dag_of(redis.call("HGET", root .. "task:" .. id, "flags"))
  if not dag or redis.call("SREM", root .. "held:" .. dag, id) == 0
    and redis.call("ZREM", root .. "unpaid:" .. dag, id) == 0 then
    return false
  end
  redis.call("HINCRBY", root .. "stats", lane .. ":READY", -1)
  if redis.call("EXISTS", root .. "unpaid:" .. dag) == 0 then
    redis.call("SREM", root .. "short", dag)
  end
  return true
end
