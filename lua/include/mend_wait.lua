-- @include mend_parents
-- Puts a PENDING task back into the indexes of what it waits for; one with parents in its DAG is
-- found there. One that waits for nothing is due at once: the promoter makes it READY. One that is
-- about to be cancelled waits for that. `row` is mend_task's. Whether anything was missing.
local function mend_wait(root, now, id, row, limit)
  local waits = root .. "waits:" .. id
  local mended = not row[9] and redis.call("ZADD", root .. "blocked", "NX", now, id) == 1
  if redis.call("HEXISTS", root .. "cancelling", id) == 1 then
    return mended
  end
  local sole = redis.call("HGET", root .. "task:" .. id, "sole") == "1"
  if not sole and redis.call("EXISTS", waits) == 0 then
    redis.call("SADD", waits, "@time")
    mended = true
  end
  if redis.call("SISMEMBER", waits, "@time") == 1
    and redis.call("ZADD", root .. "delayed", "NX", row[6] or now, id) == 1 then
    mended = true
  end
  if redis.call("SISMEMBER", waits, "@parents") == 1 then
    -- Not all of them know it yet: somebody must tell them.
    return redis.call("HSETNX", root .. "unfinished", "revive " .. id, 0) == 1 or mended
  end
  return mend_parents(root, id, limit) or mended
end
