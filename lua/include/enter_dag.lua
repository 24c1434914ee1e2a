-- Counts new tasks with their DAG, and edges. Of those that wait inside the DAG knows the number in
-- each lane: until its commit they are CREATED for others.
local function enter_dag(root, dag, members, waiting, edges)
  local key = root .. "dag:" .. dag
  redis.call("HINCRBY", key, "edges", edges)
  if #members == 0 then
    return
  end
  redis.call("RPUSH", root .. "members:" .. dag, unpack(members))
  redis.call("HINCRBY", key, "total", #members)
  redis.call("HINCRBY", key, "open", #members)
  for lane, number in pairs(waiting) do
    redis.call("HINCRBY", key, "waiting:" .. lane, number)
  end
end
