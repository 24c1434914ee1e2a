-- Asks to be told by mail when a DAG ends or fails; its status, nil where there is none.
local function watch_dag(root, dag, box, keep_ms)
  local row = redis.call("HMGET", root .. "dag:" .. dag, "status", "finished")
  if not row[1] or row[1] == "writing" then
    return nil
  end
  if not row[2] and row[1] ~= "failed" then
    redis.call("SADD", root .. "watchers:dag_" .. dag, box)
    redis.call("PEXPIRE", root .. "watchers:dag_" .. dag, keep_ms)
  end
  return row[1]
end
