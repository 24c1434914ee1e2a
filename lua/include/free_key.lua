-- Gives up the task's idempotency key if it is still this task's.
local function free_key(root, id, more)
  if more.idem and redis.call("GET", root .. "idem:" .. more.idem) == id then
    redis.call("DEL", root .. "idem:" .. more.idem)
  end
end
