-- Unblocks dependents when what they wait for is met or has ended.

-- Notes in `how` for each dependent that a parent is met, as many as it has left, see unblock_met.
-- What is left stays there, and the parent in `unblocking`: the next call goes on. Whether
-- all were told.
function unblock.dependents(root, parent, how)
  local dependents = root .. "dependents:" .. parent
  -- In the order of their ids, as they are claimed: the stream is then freed from its head.
  local children = how.left > 0 and redis.call("ZRANGE", dependents, 0, how.left - 1) or {}
  for _, child in ipairs(children) do
    unblock.note_met(how, child, parent)
  end
  if #children > 0 then
    redis.call("ZREMRANGEBYRANK", dependents, 0, #children - 1)
  end
  how.left = how.left - #children
  if how.left > 0 or redis.call("EXISTS", dependents) == 0 then
    return true
  end
  how.unfinished = true
  redis.call("SADD", root .. "unblocking", parent)
  return false
end

-- Notes in `how` for a dependent that a parent is met, see unblock_met: by its name, and by a list
-- of names where there are several, since most have one.
function unblock.note_met(how, child, parent)
  local met = how.met[child]
  if not met then
    how.met[child] = parent
    how.order[#how.order + 1] = child
  elseif type(met) == "table" then
    met[#met + 1] = parent
  else
    how.met[child] = { met, parent }
  end
end

-- Unblocks those whose parents `note_met` has noted, each once for all of them.
function unblock.met(root, how)
  for _, child in ipairs(how.order) do
    unblock.one(root, child, how.met[child], how)
  end
  how.met, how.order = {}, {}
end

-- What a PENDING task waited for is there, one parent or a list of them; READY when it was the
-- last. `how` collects it for the indexes, see enter_indexes. Returns its lane then.
function unblock.one(root, id, met, how)
  local key = root .. "task:" .. id
  local row = redis.call("HMGET", key, "state", "lane", "score", "sole", "due", "suspended",
    "flags")
  local lane, sole = row[2], row[4] == "1"
  if not sole then
    local waits = root .. "waits:" .. id
    values.remove_members(waits, met)
    if redis.call("EXISTS", waits) == 1 then
      return nil
    end
  end
  if row[1] ~= "PENDING" then
    -- It may be about to wait for what it spawned, see gather_tasks.
    values.remove_members(root .. "gather:" .. id, met)
    return nil
  end
  lanes.tally(how, lane, "PENDING", -1)
  if not sole then
    how.unblocked[#how.unblocked + 1] = id
  end
  how.readied[#how.readied + 1] = id
  indexes.make_ready(root, id, lane, row[3], how, row[7], sole)
  if row[5] or row[6] then
    redis.call("HDEL", key, "due", "suspended")
  end
  return lane
end

-- A task's time has come: READY, unless it waits for something else. `how` collects it for the
-- indexes, see enter_indexes. Returns its lane then.
function unblock.promote(root, id, how)
  local key = root .. "task:" .. id
  local row = redis.call("HMGET", key, "state", "lane", "score", "flags")
  redis.call("ZREM", root .. "delayed", id)
  if row[1] == "PENDING" then
    return unblock.one(root, id, "@time", how)
  elseif row[1] ~= "RETRYING" then
    return nil
  end
  lanes.tally(how, row[2], "RETRYING", -1)
  indexes.make_ready(root, id, row[2], row[3], how, row[4])
  redis.call("HDEL", key, "due")
  return row[2]
end

-- A parent of one that waits for a failure failed: it waits for no other. One that is not committed
-- is told when it is: its producer may send again what it is to wait for.
local function fire_triggered(root, child, parent, how)
  local key, waits = root .. "task:" .. child, root .. "waits:" .. child
  if redis.call("SISMEMBER", waits, parent) == 0 then
    return
  elseif redis.call("HGET", key, "state") == "CREATED" then
    redis.call("SREM", waits, parent)
    redis.call("HSET", key, "fired", 1)
    return
  end
  edges.wait_for_none(root, child)
  unblock.one(root, child, parent, how)
end

-- A parent of one that waits for a failure ended without. Whether it was the last, and none failed
-- before: that one stays among those it waits for, so that it cannot run before it is given up.
local function skip_triggered(root, child, parent)
  local waits = root .. "waits:" .. child
  if redis.call("SISMEMBER", waits, parent) == 0 then
    return false
  end
  local others = redis.call("SCARD", waits) - redis.call("SISMEMBER", waits, "@time")
  local last = others == 1 and redis.call("HEXISTS", root .. "task:" .. child, "fired") == 0
  if not last then
    redis.call("SREM", waits, parent)
  end
  return last
end

-- Tells those who wait for a task's end, whatever it is, that it has ended in this state: as many
-- as `how` has left. What is left stays, and the task in `telling`: the next call goes on. One
-- that waits for a failure runs at the first and is given up when all ended without any.
function unblock.notify_ended(root, parent, state, how)
  local key, skipped = root .. "heirs:" .. parent, {}
  local heirs = how.left > 0 and redis.call("HRANDFIELD", key, how.left, "WITHVALUES") or {}
  for i = 1, #heirs, 2 do
    local child, kind = heirs[i], heirs[i + 1]
    if kind == "all_done" then
      unblock.one(root, child, parent, how)
    elseif state == "DEAD_LETTERED" then
      fire_triggered(root, child, parent, how)
    elseif skip_triggered(root, child, parent) then
      skipped[#skipped + 1] = { child, "no parent failed", "cascade" }
    end
    redis.call("HDEL", key, child)
  end
  cancel.later(root, skipped)
  how.left = how.left - #heirs / 2
  local more = redis.call("EXISTS", key) == 1
  redis.call(more and "SADD" or "SREM", root .. "telling", parent)
  how.unfinished = how.unfinished or more
end

-- What completions mean for DAGs and for those who waited, as `how` has collected it.
function unblock.finish(root, now, how)
  status.write_tallies(root, now, how)
  unblock.met(root, how)
  indexes.enter(root, how)
  event.emit_ready(root, how.events, how.readied)
end

-- Leaves those who wait for a task's end, whatever it is, to the next call of `unblock`.
function unblock.later(root, id, flags)
  if tasks.has_flag(flags, "h") then
    redis.call("SADD", root .. "telling", id)
  end
end
