-- Whether tasks of a DAG may be handed out: not while it is paused or is being given up. The first
-- that is makes it run. `seen` remembers the answer for the call.
local function dag_gate(root, dag, seen)
  if seen[dag] == nil then
    local key = root .. "dag:" .. dag
    local row = redis.call("HMGET", key, "status", "paused", "closing")
    seen[dag] = not row[2] and not row[3]
    if row[1] == "pending" and seen[dag] then
      redis.call("HSET", key, "status", "running")
    end
  end
  return seen[dag]
end
