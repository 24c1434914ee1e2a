-- @include tally_lane
-- @include unblock_task
-- A task's time has come: READY, unless it waits for something else. `how` collects it for the
-- indexes, see enter_indexes. Returns its lane then.
local function promote_task(root, id, how)
  local key = root .. "task:" .. id
  local row = redis.call("HMGET", key, "state", "lane", "score", "flags")
  redis.call("ZREM", root .. "delayed", id)
  if row[1] == "PENDING" then
    return unblock_task(root, id, "@time", how)
  elseif row[1] ~= "RETRYING" then
    return nil
  end
  tally_lane(how, row[2], "RETRYING", -1)
  free_task(root, id, row[2], row[3], how, row[4])
  redis.call("HDEL", key, "due")
  return row[2]
end
