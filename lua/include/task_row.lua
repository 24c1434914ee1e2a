-- @include decoded
-- The task's common fields as a table; `state` is nil where there is no such task.
local function task_row(root, id)
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "lane", "entry", "token",
    "flags", "more", "score")
  return { state = row[1], lane = row[2], entry = row[3], token = row[4], flags = row[5],
    more = decoded(row[6]), score = row[7] }
end
