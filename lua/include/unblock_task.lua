-- @include free_task
-- One thing a PENDING task waited for is there; READY when it was the last. `how` collects it for
-- the indexes, see enter_indexes. Returns its lane then.
local function unblock_task(root, id, met, how)
  local key, waits = root .. "task:" .. id, root .. "waits:" .. id
  local row = redis.call("HMGET", key, "state", "lane", "score", "due", "suspended", "sole")
  local lane, sole = row[2], row[6] == "1"
  if not sole then
    redis.call("SREM", waits, met)
  end
  if not sole and redis.call("EXISTS", waits) == 1 then
    return nil
  elseif row[1] ~= "PENDING" then
    -- It may be about to wait for what it spawned, see gather_tasks.
    redis.call("SREM", root .. "gather:" .. id, met, unpack(how.met[id] or {}))
    return nil
  end
  tally_lane(how, lane, "PENDING", -1)
  if not sole then
    how.unblocked[#how.unblocked + 1] = id
  end
  how.readied[#how.readied + 1] = id
  free_task(root, id, lane, row[3], how, sole)
  if row[4] or row[5] then
    redis.call("HDEL", key, "due", "suspended")
  end
  return lane
end
