-- Tasks that are held because their DAG is paused, being cancelled or out of budget.

-- The DAG that the `flags` of a task name, if it is paused or being cancelled, else false: its
-- tasks are held when they become READY. `how` caches the answer for the call.
function paused.holding_dag(root, flags, how)
  local seen = how.paused or {}
  how.paused = seen
  if seen[flags] == nil then
    local dag = tasks.dag_of(flags)
    if dag and seen[dag] == nil then
      local row = redis.call("HMGET", root .. "dag:" .. dag, "paused", "closing")
      seen[dag] = (row[1] or row[2]) and dag or false
    end
    seen[flags] = dag and seen[dag] or false
  end
  return seen[flags]
end

-- Holds a READY task that has left its lane: with its DAG, or for "$<dag>" with the tasks that this
-- DAG cannot pay. The set of a lane counts its own tasks: one that is READY and not in it is
-- counted separately.
function paused.hold(root, what, id, lane)
  local dag = string.match(what, "^%$(.+)$")
  if dag then
    redis.call("ZADD", root .. "unpaid:" .. dag, accounts.price_of(root, id), id)
    redis.call("SADD", root .. "short", dag)
  else
    redis.call("SADD", root .. "held:" .. what, id)
  end
  redis.call("HINCRBY", root .. "stats", lane .. ":READY", 1)
end

-- Releases a READY task that is held with its DAG or that the DAG cannot pay. Returns whether it
-- was held.
function paused.release_task(root, id, lane)
  local dag = tasks.dag_of(redis.call("HGET", root .. "task:" .. id, "flags"))
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

-- Takes out of the lanes in a list of { number, ... } the tasks that are held with their DAG or
-- cost more than what remains of its budget, among about `heads` heads of all lanes. Reserves
-- nothing: a task that stays may be claimed or not, and must not keep another from it.
function paused.hold_heads(root, served, heads)
  local page, how, left = math.ceil(heads / #served), {}, {}
  for _, lane in ipairs(served) do
    for _, id in ipairs(redis.call("ZRANGE", root .. "lane:" .. lane[1], 0, page - 1)) do
      local flags = redis.call("HGET", root .. "task:" .. id, "flags")
      local what, dag = flags and paused.holding_dag(root, flags, how), tasks.dag_of(flags)
      if dag and left[dag] == nil then
        left[dag] = accounts.dag_remaining(root, dag) or false
      end
      if dag and not what and left[dag] then
        local price = tasks.has_flag(flags, "c") and accounts.price_of(root, id) or 0
        what = price > left[dag] and "$" .. dag
      end
      if what then
        lanes.leave(root, lane[1], id)
        paused.hold(root, what, id, lane[1])
      end
    end
  end
end
