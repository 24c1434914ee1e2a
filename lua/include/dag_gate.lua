-- @include dag_of
-- Whether a task may be handed out as far as the DAG that its `flags` name lets it: not while that
-- is paused or is being given up. The first that is makes it run. `seen` remembers the answer for
-- the call.
local function dag_gate(root, flags, seen)
  local dag = dag_of(flags)
  if not dag then
    seen[flags] = true
  elseif seen[dag] == nil then
    local key = root .. "dag:" .. dag
    local row = redis.call("HMGET", key, "status", "paused", "closing")
    seen[dag] = not row[2] and not row[3]
    if row[1] == "pending" and seen[dag] then
      redis.call("HSET", key, "status", "running")
    end
  end
  seen[flags] = seen[flags] or seen[dag]
  return seen[flags]
end
