-- Puts a READY task that has left its lane among those that are held back with their DAG. The
-- lane counts itself: what is READY and not in it is counted beside it.
local function hold_task(root, dag, id, lane)
  redis.call("SADD", root .. "held:" .. dag, id)
  redis.call("HINCRBY", root .. "stats", lane .. ":READY", 1)
end
