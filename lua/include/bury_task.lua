-- @include end_task
-- @include snapshot
-- @include emit
-- @include tally
-- @include cancel_dependents
-- Ends a task as DEAD_LETTERED, after its indexes are left. It stays until someone resolves it.
-- Those who wait for it wait on, unless its DAG is to continue without it.
-- Returns its outbox value: a snapshot, since it may live again before the archive looks.
local function bury_task(root, now, id, row, fields, how)
  fields[#fields + 1] = "finished"
  fields[#fields + 1] = now
  end_task(root, id, row, "DEAD_LETTERED", nil, fields)
  redis.call("ZADD", root .. "dead", now, id)
  emit(root, how.events, "task.dead_lettered", id, how.reason)
  tally(how, row.flags, "open", "dead")
  local dag = dag_of(row.flags)
  if dag and redis.call("HGET", root .. "dag:" .. dag, "on_failure") == "continue" then
    cancel_dependents(root, id, row.flags, "cascade", "dead-lettered")
  else
    tell_later(root, id, row.flags)
  end
  local copy = how.archive and snapshot(root, id) or ""
  return (row.more.life or 1) .. " DEAD_LETTERED " .. copy
end
