-- @include dag_of
-- Whether a task is there for everyone: not while the DAG that it is part of is being written.
local function is_visible(root, row)
  return (row.state ~= "CREATED" and row.state ~= "PENDING")
    or redis.call("HGET", root .. "dag:" .. (dag_of(row.flags) or ""), "status") ~= "writing"
end
