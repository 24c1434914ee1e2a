-- Puts a PENDING task into the indexes of those that wait, and of those that wait for a time.
local function wait_task(root, now, id, due)
  redis.call("ZADD", root .. "blocked", now, id)
  if due then
    redis.call("ZADD", root .. "delayed", due, id)
  end
end
