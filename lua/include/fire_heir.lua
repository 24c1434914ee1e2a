-- @include wait_for_none
-- @include unblock_task
-- A parent of one that waits for a failure failed: it waits for no other. One that is not committed
-- is told when it is: its producer may send again what it is to wait for.
local function fire_heir(root, child, parent, how)
  local key, waits = root .. "task:" .. child, root .. "waits:" .. child
  if redis.call("SISMEMBER", waits, parent) == 0 then
    return
  elseif redis.call("HGET", key, "state") == "CREATED" then
    redis.call("SREM", waits, parent)
    redis.call("HSET", key, "fired", 1)
    return
  end
  wait_for_none(root, child)
  unblock_task(root, child, parent, how)
end
