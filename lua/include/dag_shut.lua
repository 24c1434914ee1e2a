-- @include dag_of
-- The DAG that the `flags` of a task name, if it is paused or being given up: what becomes READY of
-- it is held back. `how` remembers the answer for the call.
local function dag_shut(root, flags, how)
  local seen = how.shut or {}
  how.shut = seen
  if seen[flags] == nil then
    local dag = dag_of(flags)
    if dag and seen[dag] == nil then
      local row = redis.call("HMGET", root .. "dag:" .. dag, "paused", "closing")
      seen[dag] = (row[1] or row[2]) and dag or false
    end
    seen[flags] = dag and seen[dag] or false
  end
  return seen[flags]
end
