-- Appends one event of a DAG to the capped stream of what happened.
local function emit_dag(root, cap, name, dag, detail)
  redis.call("XADD", root .. "events", "MAXLEN", "~", cap, "*",
    "event", name, "dag", dag, "detail", detail)
end
