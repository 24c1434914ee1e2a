-- @include dag_of
-- @include waits_again
-- @include named_already
-- What a revival is answered that cannot be: its DAG is just being given up, another task has its
-- key or its name, or what it waited for can never be. Else nil, the parents that it waits for
-- again, and whether there are more than `page`. `row` is that of task_row.
local function stays_dead(root, task, row, steps, page)
  local dag = dag_of(row.flags)
  if dag and redis.call("HEXISTS", root .. "unfinished", "cancel " .. dag) == 1 then
    return { "CLOSING", dag }
  end
  local holder = row.more.idem and redis.call("GET", root .. "idem:" .. row.more.idem)
  local other = holder and redis.call("HGET", root .. "task:" .. holder, "state")
  if other and other ~= "COMPLETED" then
    return { "EXISTS", holder }
  end
  local open, refused, many = waits_again(root, task, row.more.trigger, steps, page)
  if refused then
    return refused
  end
  local namesake = named_already(root, row.more.ext, task)
  if namesake then
    return { "EXISTS", namesake }
  end
  return nil, open, many
end
