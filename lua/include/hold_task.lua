-- @include price_of rarely
-- Puts a READY task that has left its lane among those that are held back with their DAG, or for
-- "$<dag>" among those that it cannot pay. The lane counts itself: what is READY and not in it is
-- counted beside it.
local function hold_task(root, what, id, lane)
  local dag = string.match(what, "^%$(.+)$")
  if dag then
    redis.call("ZADD", root .. "unpaid:" .. dag, price_of(root, id), id)
    redis.call("SADD", root .. "short", dag)
  else
    redis.call("SADD", root .. "held:" .. what, id)
  end
  redis.call("HINCRBY", root .. "stats", lane .. ":READY", 1)
end
