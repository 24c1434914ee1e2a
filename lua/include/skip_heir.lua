-- A parent of one that waits for a failure ended without. Whether it was the last: that one stays
-- among those it waits for, so that it cannot run before it is given up.
local function skip_heir(root, child, parent)
  local waits = root .. "waits:" .. child
  local others = redis.call("SCARD", waits) - redis.call("SISMEMBER", waits, "@time")
  if redis.call("SISMEMBER", waits, parent) == 0 then
    return false
  elseif others > 1 then
    redis.call("SREM", waits, parent)
  end
  return others == 1
end
