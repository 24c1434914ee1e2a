-- @include leave_indexes
-- @include return_name
-- @include count
-- @include dag_of
-- Takes back a task that was never committed: every key of it, and its name among those of the
-- tasks outside its DAG that it was to wait for.
local function uncreate_task(root, id, row)
  if not row.state then
    return
  end
  leave_indexes(root, id, row.state)
  count(root, row.lane, "CREATED", -1)
  if row.state == "PENDING" then
    redis.call("HINCRBY", root .. "dag:" .. dag_of(row.flags), "waiting:" .. row.lane, -1)
  end
  return_name(root, id, row.more.ext)
  for _, tag in ipairs(row.more.tags or {}) do
    redis.call("ZREM", root .. "tag:" .. tag, id)
  end
  redis.call("ZREM", root .. "deadlines", id)
  redis.call("HDEL", root .. "cancelling", "children " .. id)
  redis.call("SREM", root .. "telling", id)
  redis.call("DEL", root .. "task:" .. id, root .. "def:" .. id, root .. "dependents:" .. id,
    root .. "heirs:" .. id, root .. "parents:" .. id)
end
