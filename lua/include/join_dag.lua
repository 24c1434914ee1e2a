-- @include adopt_dag
-- @include task_row
-- @include flag
-- Makes a new task one of its first parent's DAG, if that is open and has room for it, and returns
-- whether it is. A chain that never ends must not make a DAG without end: beyond the most it may
-- have, a task begins one of its own, and the edge between them is an edge like any other. So it
-- does where tasks of the DAG may add nothing: one of them may be who enqueues.
local function join_dag(root, now, id, parents, room)
  local dag = adopt_dag(root, now, parents[1], task_row(root, parents[1]))
  local key = root .. "dag:" .. dag
  local row = redis.call("HMGET", key, "total", "finished", "closing", "spawn")
  if row[2] or row[3] or row[4] == "none" or not row[1] or tonumber(row[1]) >= room then
    return false
  end
  redis.call("HINCRBY", key, "total", 1)
  redis.call("HINCRBY", key, "open", 1)
  redis.call("HINCRBY", key, "edges", #parents)
  redis.call("RPUSH", root .. "members:" .. dag, id)
  redis.call("HINCRBY", root .. "unfinished", "rank " .. dag, 1)
  flag(root, id, dag)
  return true
end
