-- @include flag
-- @include is_visible
-- Asks to be told by mail when a task ends; its state, nil where there is none.
local function watch_task(root, id, box, keep_ms)
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "flags")
  local state = is_visible(root, { state = row[1], flags = row[2] }) and row[1]
  if state and state ~= "COMPLETED" and state ~= "DEAD_LETTERED" and state ~= "CANCELLED" then
    redis.call("SADD", root .. "watchers:" .. id, box)
    redis.call("PEXPIRE", root .. "watchers:" .. id, keep_ms)
    flag(root, id, "w")
  end
  return state
end
