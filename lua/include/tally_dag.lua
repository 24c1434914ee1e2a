-- @include end_dag
-- @include fail_dag
-- Counts how many tasks of a DAG have ended or live again, and moves its status: failed while one
-- is dead, ended when none is open and none is dead.
local function tally_dag(root, now, dag, by, events)
  local key = root .. "dag:" .. dag
  for counter, number in pairs(by) do
    -- Less nothing would be sent as "-0", which Redis does not take for a number.
    if number ~= 0 then
      redis.call("HINCRBY", key, counter, number)
    end
  end
  local row = redis.call("HMGET", key, "status", "open", "dead", "closing")
  local status, open, dead, closing = row[1], tonumber(row[2]), tonumber(row[3]), row[4]
  if not status or status == "writing" then
    return
  elseif dead > 0 then
    fail_dag(root, dag, status, events, (by.dead or 0) > 0)
  elseif open == 0 then
    return end_dag(root, now, dag, events)
  elseif status == "failed" and not closing then
    redis.call("HSET", key, "status", "running")
  end
  if (by.cancelled or 0) > 0 and not closing then
    -- The critical path may be another.
    redis.call("HINCRBY", root .. "unfinished", "rank " .. dag, 1)
  end
end
