-- @include unblock_task
-- A parent of one that waits for a failure failed: it waits for no other, at most for its time.
local function fire_heir(root, child, parent, how)
  local waits = root .. "waits:" .. child
  if redis.call("SISMEMBER", waits, parent) == 0 then
    return
  end
  local timed = redis.call("SISMEMBER", waits, "@time") == 1
  redis.call("DEL", waits)
  if timed then
    redis.call("SADD", waits, "@time")
  end
  unblock_task(root, child, parent, how)
end
