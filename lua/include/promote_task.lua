-- @include unblock_task
-- A task's time has come. Returns the lane it entered, nil where it waits for something else.
local function promote_task(root, id)
  local key = root .. "task:" .. id
  local row = redis.call("HMGET", key, "state", "lane", "score")
  redis.call("ZREM", root .. "delayed", id)
  if row[1] == "PENDING" then
    return unblock_task(root, id, "@time")
  elseif row[1] ~= "RETRYING" then
    return nil
  end
  count(root, row[2], "RETRYING", -1)
  ready_task(root, id, row[2], row[3])
  redis.call("HDEL", key, "due")
  return row[2]
end
