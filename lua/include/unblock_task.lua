-- @include ready_task
-- @include count
-- One thing a PENDING task waited for is there; READY when it was the last. Returns its lane then.
local function unblock_task(root, id, met)
  local key = root .. "task:" .. id
  local waits = root .. "waits:" .. id
  redis.call("SREM", waits, met)
  if redis.call("SCARD", waits) > 0 or redis.call("HGET", key, "state") ~= "PENDING" then
    return nil
  end
  local row = redis.call("HMGET", key, "lane", "score")
  redis.call("ZREM", root .. "blocked", id)
  count(root, row[1], "PENDING", -1)
  ready_task(root, id, row[1], row[2])
  redis.call("HDEL", key, "due")
  return row[1]
end
