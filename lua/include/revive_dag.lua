-- @include dag_of
-- @include tally
-- @include tally_dags
-- A dead task of a DAG lives again: the DAG goes on, also where it was given up, and its critical
-- path is another. Of those who wait for it no more are cancelled.
local function revive_dag(root, now, task, flags, events)
  local dag, how = dag_of(flags), { events = events }
  if dag then
    redis.call("HDEL", root .. "dag:" .. dag, "closing", "why")
    redis.call("HINCRBY", root .. "unfinished", "rank " .. dag, 1)
    redis.call("HDEL", root .. "cancelling", "children " .. task)
    tally(how, flags, "dead", "open")
    tally_dags(root, now, how)
  end
end
