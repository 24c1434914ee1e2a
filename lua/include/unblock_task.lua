-- @include tally_lane
-- @include free_task
-- @include take_off
-- What a PENDING task waited for is there, one parent or a list of them; READY when it was the
-- last. `how` collects it for the indexes, see enter_indexes. Returns its lane then.
local function unblock_task(root, id, met, how)
  local key = root .. "task:" .. id
  local row = redis.call("HMGET", key, "state", "lane", "score", "sole", "due", "suspended",
    "flags")
  local lane, sole = row[2], row[4] == "1"
  if not sole then
    local waits = root .. "waits:" .. id
    take_off(waits, met)
    if redis.call("EXISTS", waits) == 1 then
      return nil
    end
  end
  if row[1] ~= "PENDING" then
    -- It may be about to wait for what it spawned, see gather_tasks.
    take_off(root .. "gather:" .. id, met)
    return nil
  end
  tally_lane(how, lane, "PENDING", -1)
  if not sole then
    how.unblocked[#how.unblocked + 1] = id
  end
  how.readied[#how.readied + 1] = id
  free_task(root, id, lane, row[3], how, row[7], sole)
  if row[5] or row[6] then
    redis.call("HDEL", key, "due", "suspended")
  end
  return lane
end
