-- @include dag_of
-- A task that is not born yet waits for the commit of its DAG to reach it, or to be dropped with
-- it: whether nothing was about to.
local function mend_created(root, now, id, flags)
  local dag = dag_of(flags) or ""
  local status = redis.call("HGET", root .. "dag:" .. dag, "status")
  if not status then
    redis.call("RPUSH", root .. "members:" .. dag, id)
    redis.call("ZADD", root .. "writing", "NX", 0, dag)
    return true
  elseif status == "writing" then
    return redis.call("ZADD", root .. "writing", "NX", now, dag) == 1
  end
  if redis.call("HSETNX", root .. "unfinished", "commit " .. dag, 0) == 0 then
    return false
  end
  redis.call("RPUSH", root .. "fresh:" .. dag, id)
  return true
end
