-- Retries dead tasks (a new life) and records reviews.

-- The reply to a decision about a dead task that comes too late: "DECIDED" where another was made
-- about the life that its reviewer saw, "STATE" where that life is not dead; nil where the decision
-- can be carried out. `life` is nil where it is not known.
function revive.already_decided(root, id, row, life)
  local lives = tonumber(row.more.life) or 1
  if row.state == "DEAD_LETTERED" and (not life or lives == life) then
    return nil
  elseif life and (lives > life or (lives == life and row.state == "CANCELLED"
    and redis.call("HGET", root .. "task:" .. id, "settled") == "discard")) then
    return "DECIDED"
  end
  return "STATE"
end

-- Appends the decision about a dead task to the stream of reviews: `review` by name, with
-- `resolution` where it has none, which is set in it. About the newest `keep` entries stay; 0: all,
-- for the archive.
function revive.add_review(root, now, id, life, review, resolution, keep)
  review.resolution = review.resolution or resolution
  local line = { "task", id, "life", life, "at", now }
  for _, name in ipairs({ "by", "resolution", "cause", "note", "not_before", "diff", "type",
    "reason", "error", "fingerprint" }) do
    values.add_field(line, name, review[name])
  end
  if keep > 0 then
    redis.call("XADD", root .. "reviews", "MAXLEN", "~", keep, "*", unpack(line))
  else
    redis.call("XADD", root .. "reviews", "*", unpack(line))
  end
end

-- What a dead task waits for when it is revived; or why it cannot be: a dependency can never be
-- met, or waits for the task itself through edges that were added since it died, or there are too
-- many edges to follow. More than a `page` of dependencies are checked later: then the third result
-- is true.
local function dependencies_of_new_life(root, task, trigger, steps, page)
  local kept, walk = edges.saved(root, task), { seen = {}, left = steps }
  if #kept > page then
    local cycle = edges.reaches(root, kept, task, walk)
    return {}, cycle and { cycle, task }, true
  end
  local open, lost = edges.unmet(root, kept, trigger)
  if not open then
    return nil, { "PARENT", lost }
  end
  local cycle = edges.reaches(root, open, task, walk)
  return open, cycle and { cycle, task }
end

-- The refusal of a revival: its DAG is being cancelled, another task has its idempotency key or its
-- external id, or what it waited for can never be met. Else nil, the dependencies that it waits for
-- again, and whether there are more than `page`. `row` is that of tasks.read.
function revive.refused(root, task, row, steps, page)
  local dag = tasks.dag_of(row.flags)
  if dag and redis.call("HEXISTS", root .. "unfinished", "cancel " .. dag) == 1 then
    return { "CLOSING", dag }
  end
  local holder = row.more.idem and redis.call("GET", root .. "idem:" .. row.more.idem)
  local other = holder and redis.call("HGET", root .. "task:" .. holder, "state")
  if other and other ~= "COMPLETED" then
    return { "EXISTS", holder }
  end
  local open, refused, many = dependencies_of_new_life(root, task, row.more.trigger, steps, page)
  if refused then
    return refused
  end
  local ext_holder = special.holder_of_ext(root, row.more.ext, task)
  if ext_holder then
    return { "EXISTS", ext_holder }
  end
  return nil, open, many
end

-- Begins a new life of a dead task: its attempts start again, and its other names lead to it again.
-- `row` is that of tasks.read, `def` is "" or its changed definition.
function revive.begin_life(root, now, id, row, def, events)
  local key, more = root .. "task:" .. id, row.more
  redis.call("ZREM", root .. "dead", id)
  redis.call("HDEL", key, "finished", "reason", "why", "settled", "attempts", "reclaims", "parks",
    "due", "failed_by", "poison", "reviewed", "resolution")
  late.close_costs(root, id, row.flags, more.life or 1)
  more.life = (more.life or 1) + 1
  redis.call("HSET", key, "more", cjson.encode(more))
  tasks.add_flag(root, id, "m")
  if more.deadline and more.deadline > now then
    redis.call("ZADD", root .. "deadlines", more.deadline, id)
  end
  if more.idem then
    redis.call("SET", root .. "idem:" .. more.idem, id)
  end
  if more.ext then
    redis.call("SET", root .. "ext:" .. more.ext, id)
  end
  if def ~= "" then
    definition.write(root, id, def)
  end
  if row.entry then
    redis.call("HSETNX", key, "created", string.match(row.entry, "^%d+"))
    redis.call("HDEL", key, "entry")
  end
  lanes.count(root, row.lane, "DEAD_LETTERED", -1)
  event.emit(root, events, "task.revived", id, tostring(more.life))
end

-- A revived task is registered with all its dependencies, see revive.register_dependencies: it
-- waits for nothing else. Where one is `lost` it is cancelled, and so is one that waits for a
-- failure where no dependency is left that could fail; `fired`: one has failed.
local function finish_registration(root, id, trigger, lost, fired, how)
  local waits = root .. "waits:" .. id
  redis.call("HDEL", root .. "unfinished", "revive " .. id)
  redis.call("HDEL", root .. "task:" .. id, "parents")
  local others = redis.call("SCARD", waits) - redis.call("SISMEMBER", waits, "@time") - 1
  if lost then
    return cancel.later(root, { { id, "Parent task_" .. lost .. " cancelled", "cascade" } })
  elseif fired then
    edges.wait_for_none(root, id)
  elseif trigger == "one_failed" and others == 0 then
    return cancel.later(root, { { id, "no parent failed", "cascade" } })
  end
  unblock.one(root, id, "@parents", how)
end

-- Registers a revived task with the next `limit` of its many dependencies, where `unfinished` names
-- this step; until the last it waits for "@parents". Returns whether there are more.
function revive.register_dependencies(root, id, row, limit, how)
  local unfinished, step = root .. "unfinished", "revive " .. id
  local at = tonumber(redis.call("HGET", unfinished, step))
  if not at or row.state ~= "PENDING" then
    redis.call("HDEL", unfinished, step)
    return false
  end
  local trigger = row.more.trigger
  local page, more = edges.saved(root, id, at, limit)
  local open, lost, fired = edges.unmet(root, page, trigger, true)
  if open and not fired then
    redis.call("SADD", root .. "waits:" .. id, "@parents", unpack(open))
    edges.register(root, id, open, trigger)
    if more then
      redis.call("HSET", unfinished, step, at + limit)
      return true
    end
  end
  finish_registration(root, id, trigger, not open and lost, fired, how)
  return false
end
