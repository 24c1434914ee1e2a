-- What is left of the budget of a DAG, in micro-USD; nil where it has none.
local function dag_left(root, dag)
  local row = redis.call("HMGET", root .. "dag:" .. dag, "budget", "spent", "reserved")
  return row[1] and row[1] - (row[2] or 0) - (row[3] or 0) or nil
end
