-- @include emit
-- @include tell_dag
-- A DAG has dead tasks. Says so once; tells when they are as many as its producer wants to hear of;
-- and where one is enough to give the rest up, nothing more of it is handed out once another has
-- `died`: one that lives again beside a dead one shall run.
local function fail_dag(root, dag, status, events, died)
  local key = root .. "dag:" .. dag
  local row = redis.call("HMGET", key, "dead", "total", "threshold", "escalated", "on_failure",
    "closing", "cancelled")
  local dead, threshold = tonumber(row[1]), tonumber(row[3])
  if status ~= "failed" then
    redis.call("HSET", key, "status", "failed")
    emit(root, events, "dag.failed", dag, row[1])
    tell_dag(root, dag)
  end
  -- Below one it is a share of all tasks.
  if threshold and not row[4]
    and dead >= (threshold < 1 and threshold * row[2] or threshold) then
    redis.call("HSET", key, "escalated", row[1])
    emit(root, events, "dag.escalated", dag, row[1])
  end
  if died and row[5] == "fail_fast" and not row[6] then
    redis.call("HSET", key, "closing", "failed", "why", "a task of the DAG failed for good",
      "before", row[7])
    redis.call("HDEL", key, "request")
    redis.call("HSET", root .. "unfinished", "cancel " .. dag, 0)
  end
end
