-- A parent of one that waits for a failure ended without. Whether it was the last, and none failed
-- before: that one stays among those it waits for, so that it cannot run before it is given up.
local function skip_heir(root, child, parent)
  local waits = root .. "waits:" .. child
  if redis.call("SISMEMBER", waits, parent) == 0 then
    return false
  end
  local others = redis.call("SCARD", waits) - redis.call("SISMEMBER", waits, "@time")
  local last = others == 1 and redis.call("HEXISTS", root .. "task:" .. child, "fired") == 0
  if not last then
    redis.call("SREM", waits, parent)
  end
  return last
end
