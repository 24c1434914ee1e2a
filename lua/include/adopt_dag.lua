-- @include flag
-- @include dag_of
-- The DAG of a task, as a task that joins it finds it. A task that is alone is a DAG of one, of
-- which nothing is written until a second one comes: it is written now, under the task's own ULID.
local function adopt_dag(root, now, id, row)
  local dag = dag_of(row.flags)
  if dag then
    return dag
  end
  local ended = row.state == "COMPLETED" or row.state == "CANCELLED"
  local in_hand = row.state == "CLAIMED" or row.state == "RUNNING" or row.state == "VALIDATING"
  local dead = row.state == "DEAD_LETTERED"
  redis.call("HSET", root .. "dag:" .. id, "status",
    dead and "failed" or (in_hand or ended) and "running" or "pending",
    "created", string.format("%.0f", now), "on_failure", "hold", "total", 1, "edges", 0,
    "open", (ended or dead) and 0 or 1, "dead", dead and 1 or 0,
    "cancelled", row.state == "CANCELLED" and 1 or 0)
  -- What it has cost is its DAG's, and what is set aside for it comes back to that, too.
  local spent = redis.call("HGET", root .. "notes:" .. id, "micro_usd")
  if spent then
    redis.call("HSET", root .. "dag:" .. id, "spent", spent)
  end
  local left = string.match(redis.call("HGET", root .. "task:" .. id, "reserved") or "", "^%d+")
  if in_hand and left then
    redis.call("HSET", root .. "dag:" .. id, "reserved", left)
  end
  redis.call("ZADD", root .. "dags", now, id)
  redis.call("RPUSH", root .. "members:" .. id, id)
  flag(root, id, id)
  return id
end
