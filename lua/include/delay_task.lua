-- @include leave_indexes
-- @include count
-- Lets a waiting task wait until `due`: RETRYING stays so, READY and PENDING wait for "@time".
local function delay_task(root, now, id, row, due)
  local key, state = root .. "task:" .. id, row.state
  if state == "READY" then
    leave_indexes(root, id, state, row.lane, row.entry)
    redis.call("HSETNX", key, "created", string.match(row.entry, "^%d+"))
    redis.call("HSET", key, "state", "PENDING")
    redis.call("HDEL", key, "entry")
    redis.call("ZADD", root .. "blocked", now, id)
    count(root, row.lane, "PENDING", 1)
    state = "PENDING"
  end
  if state == "PENDING" then
    if redis.call("HGET", key, "sole") == "1" then
      redis.call("SADD", root .. "waits:" .. id, redis.call("HGET", key, "up0"))
      redis.call("HDEL", key, "sole")
    end
    redis.call("SADD", root .. "waits:" .. id, "@time")
  end
  redis.call("HSET", key, "due", due)
  redis.call("ZADD", root .. "delayed", due, id)
end
