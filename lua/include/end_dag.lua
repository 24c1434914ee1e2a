-- @include emit
-- @include tell_dag
-- Every task of a DAG is completed or cancelled: it has ended. Its outputs begin to expire, who
-- waited is told, and the DAG that follows it is submitted, in steps that others take. That it has
-- failed was said when it did.
local function end_dag(root, now, dag, events)
  local key = root .. "dag:" .. dag
  local row = redis.call("HMGET", key, "closing", "cancelled", "total", "follow", "status")
  local status = row[1] or (row[2] == row[3] and "cancelled") or "completed"
  redis.call("HSET", key, "status", status, "finished", string.format("%.0f", now))
  redis.call("HSET", root .. "unfinished", "forget " .. dag, 0)
  if row[4] and status == "completed" then
    redis.call("HSET", root .. "unfinished", "follow " .. dag, 0)
  end
  if status ~= row[5] then
    local named = { cancelled = "dag.cancelled", failed = "dag.failed" }
    emit(root, events, named[status] or "dag.completed", dag, row[3])
  end
  tell_dag(root, dag)
end
