-- Unblocks dependents when what they wait for is met or has ended.

-- Notes in `how` for the dependents of a completed task that it is met, as many as `how.left`
-- allows, see unblock.met. The rest stay in their set, and the task in `unblocking`, for the next
-- call. Returns whether all were noted.
function unblock.dependents(root, dependency, how)
  local dependents = root .. "dependents:" .. dependency
  -- In the order of their ids, as they are claimed: the stream is then trimmed at its head.
  local page = how.left > 0 and redis.call("ZRANGE", dependents, 0, how.left - 1) or {}
  for _, dependent in ipairs(page) do
    unblock.note_met(how, dependent, dependency)
  end
  if #page > 0 then
    redis.call("ZREMRANGEBYRANK", dependents, 0, #page - 1)
  end
  how.left = how.left - #page
  if how.left > 0 or redis.call("EXISTS", dependents) == 0 then
    return true
  end
  how.unfinished = true
  redis.call("SADD", root .. "unblocking", dependency)
  return false
end

-- Notes in `how` for a dependent that a dependency is met, see unblock.met: as an id, or as a list
-- of ids where there are several, since most have one.
function unblock.note_met(how, dependent, dependency)
  local met = how.met[dependent]
  if not met then
    how.met[dependent] = dependency
    how.order[#how.order + 1] = dependent
  elseif type(met) == "table" then
    met[#met + 1] = dependency
  else
    how.met[dependent] = { met, dependency }
  end
end

-- Unblocks the tasks that unblock.note_met has noted, each once for all its dependencies.
function unblock.met(root, how)
  for _, dependent in ipairs(how.order) do
    unblock.one(root, dependent, how.met[dependent], how)
  end
  how.met, how.order = {}, {}
end

-- Removes what is met, one dependency or a list of them, from what a PENDING task waits for, and
-- makes the task READY when it was the last. `how` collects the changes of the indexes, see
-- indexes.enter. Returns the lane of a task that is READY now.
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
    -- The task may be about to wait for what it spawned, see plan_wait in spawn.lua.
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

-- Makes a task READY whose time has come, unless it waits for something else. `how` collects the
-- changes of the indexes, see indexes.enter. Returns the lane of a task that is READY now.
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

-- A dependency of a one_failed task has failed: the task waits for no other. A task that is not
-- committed runs at its commit: its producer may send its dependencies again.
local function fire_triggered(root, dependent, dependency, how)
  local key, waits = root .. "task:" .. dependent, root .. "waits:" .. dependent
  if redis.call("SISMEMBER", waits, dependency) == 0 then
    return
  elseif redis.call("HGET", key, "state") == "CREATED" then
    redis.call("SREM", waits, dependency)
    redis.call("HSET", key, "fired", 1)
    return
  end
  edges.wait_for_none(root, dependent)
  unblock.one(root, dependent, dependency, how)
end

-- A dependency of a one_failed task ended without failing. Returns whether it was the last and none
-- failed before: then it stays among the dependencies, so that the task cannot run before its
-- cancel.
local function skip_triggered(root, dependent, dependency)
  local waits = root .. "waits:" .. dependent
  if redis.call("SISMEMBER", waits, dependency) == 0 then
    return false
  end
  local others = redis.call("SCARD", waits) - redis.call("SISMEMBER", waits, "@time")
  local last = others == 1 and redis.call("HEXISTS", root .. "task:" .. dependent, "fired") == 0
  if not last then
    redis.call("SREM", waits, dependency)
  end
  return last
end

-- Resolves the triggered dependents of a task that has ended in this state, as many as `how.left`
-- allows. The rest stay in their hash, and the task in `telling`, for the next call. A one_failed
-- task runs at the first failure and is cancelled when all its dependencies ended without one.
function unblock.notify_ended(root, dependency, state, how)
  local key, skipped = root .. "heirs:" .. dependency, {}
  local triggered = how.left > 0 and redis.call("HRANDFIELD", key, how.left, "WITHVALUES") or {}
  for i = 1, #triggered, 2 do
    local dependent, kind = triggered[i], triggered[i + 1]
    if kind == "all_done" then
      unblock.one(root, dependent, dependency, how)
    elseif state == "DEAD_LETTERED" then
      fire_triggered(root, dependent, dependency, how)
    elseif skip_triggered(root, dependent, dependency) then
      skipped[#skipped + 1] = { dependent, "no parent failed", "cascade" }
    end
    redis.call("HDEL", key, dependent)
  end
  cancel.later(root, skipped)
  how.left = how.left - #triggered / 2
  local more = redis.call("EXISTS", key) == 1
  redis.call(more and "SADD" or "SREM", root .. "telling", dependency)
  how.unfinished = how.unfinished or more
end

-- Applies the effects of completions on DAGs and dependents, as `how` has collected them.
function unblock.finish(root, now, how)
  status.write_tallies(root, now, how)
  unblock.met(root, how)
  indexes.enter(root, how)
  event.emit_ready(root, how.events, how.readied)
end

-- Leaves the triggered dependents of a task to the next call of `unblock`.
function unblock.later(root, id, flags)
  if tasks.has_flag(flags, "h") then
    redis.call("SADD", root .. "telling", id)
  end
end
