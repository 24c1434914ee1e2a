-- What a task waits for: its set, or its one parent where that is all, see create_task.
local function waits_of(root, id)
  local row = redis.call("HMGET", root .. "task:" .. id, "sole", "up0")
  return row[1] == "1" and { row[2] } or redis.call("SMEMBERS", root .. "waits:" .. id)
end
