-- @include tally_lane
-- @include free_task
-- @include wait_for_none
-- A CREATED task of a committed DAG: READY, or PENDING where it waits for something. `how` collects
-- those for the indexes, see enter_indexes.
local function commit_task(root, now, id, how)
  local key = root .. "task:" .. id
  local row = redis.call("HMGET", key, "state", "lane", "score", "due", "lost", "fired",
    "namesake", "flags")
  local lane = row[2]
  if row[1] ~= "CREATED" then
    return
  end
  tally_lane(how, lane, "CREATED", -1)
  if row[6] then
    wait_for_none(root, id)
  end
  if row[6] or row[7] then
    redis.call("HDEL", key, "fired", "namesake")
  end
  if redis.call("EXISTS", root .. "waits:" .. id) == 0 then
    free_task(root, id, lane, row[3], how, row[8])
  else
    redis.call("HSET", key, "state", "PENDING")
    tally_lane(how, lane, "PENDING", 1)
    how.blocked[#how.blocked + 1], how.blocked[#how.blocked + 2] = now, id
    if row[4] then
      redis.call("ZADD", root .. "delayed", row[4], id)
    end
    if row[5] then
      redis.call("HSET", root .. "cancelling", id, row[5])
      redis.call("HDEL", key, "lost")
    end
  end
end
