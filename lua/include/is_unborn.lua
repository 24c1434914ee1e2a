-- @include dag_of
-- Whether a task is part of a DAG that is not committed: CREATED, or PENDING for others of it.
-- Where the DAG itself is lost, one that waits for such a one was not committed either.
local function is_unborn(root, state, flags, up)
  local dag = dag_of(flags)
  if state ~= "PENDING" or not dag then
    return state == "CREATED"
  end
  local status = redis.call("HGET", root .. "dag:" .. dag, "status")
  if status or not up then
    return status == "writing"
  end
  local parent = redis.call("HGET", root .. "task:" .. string.sub(up, 1, 26), "state")
  return not parent or parent == "CREATED"
end
