-- Takes a task off the lists of these parents. One that was refused with its part of a DAG, and is
-- there by the name of the task alone, is gone then, see link_task.
local function leave_each(root, id, parents)
  for _, parent in ipairs(parents) do
    if redis.call("ZREM", root .. "dependents:" .. parent, id) == 0
      and redis.call("HDEL", root .. "heirs:" .. parent, id) == 0 then
      local row = redis.call("HMGET", root .. "task:" .. parent, "state", "down")
      if row[2] == id and not row[1] then
        redis.call("HDEL", root .. "task:" .. parent, "down")
      end
    end
  end
end
