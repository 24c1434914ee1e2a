-- @include mend_parents
-- Puts a PENDING task back into the indexes of what it waits for. One that waits for nothing is
-- due at once: the promoter makes it READY. One that is about to be cancelled waits for that.
-- Whether anything was missing.
local function mend_wait(root, now, id, due, limit)
  local waits = root .. "waits:" .. id
  local mended = redis.call("ZADD", root .. "blocked", "NX", now, id) == 1
  if redis.call("HEXISTS", root .. "cancelling", id) == 1 then
    return mended
  end
  if redis.call("EXISTS", waits) == 0 then
    redis.call("SADD", waits, "@time")
    mended = true
  end
  if redis.call("SISMEMBER", waits, "@time") == 1
    and redis.call("ZADD", root .. "delayed", "NX", due or now, id) == 1 then
    mended = true
  end
  return mend_parents(root, id, limit) or mended
end
