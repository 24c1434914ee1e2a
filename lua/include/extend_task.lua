-- @include more_of
-- @include flag
-- Lets a task run for longer than it might; `timeout_ms` is that of one without its own.
local function extend_task(root, id, row, more_ms, timeout_ms)
  local more = more_of(root, id, row[5])
  more.timeout = (more.timeout or tonumber(timeout_ms)) + tonumber(more_ms)
  redis.call("HSET", root .. "task:" .. id, "more", cjson.encode(more))
  flag(root, id, "m")
end
