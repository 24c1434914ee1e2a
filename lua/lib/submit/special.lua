-- Submits a task with options: idempotency key, delay, dependencies, tags or deadline.

-- Writes the options of an accepted task; where it must wait, writes the whole task and returns
-- "PENDING".
local function write_special(root, now, new, lane, more, dependencies, due)
  local id = new.id
  if new.more ~= "" then
    redis.call("HSET", root .. "task:" .. id, "more", new.more, "flags", "m")
  end
  special.write_names(root, now, id, more)
  if #dependencies == 0 and not due then
    return nil
  end
  definition.write(root, id, new.def)
  redis.call("HSET", root .. "task:" .. id, "state", "PENDING", "lane", lane, "created", now,
    "score", new.score, unpack(due and { "due", due } or {}))
  if new.tenant then
    redis.call("HSET", root .. "task:" .. id, "key", new.tenant)
  end
  if #dependencies > 0 then
    status.join(root, now, id, dependencies, cjson.decode(new.how).max_nodes)
  end
  indexes.block(root, id, dependencies, due, more.trigger)
  indexes.add_pending(root, now, id, due)
  lanes.count(root, lane, "PENDING", 1)
  return "PENDING"
end

-- Submits a task with options. Nothing is written unless it is accepted. Returns nil where the
-- caller must make it READY, else a word and its detail.
function special.submit(root, now, new)
  local more, options = values.decoded(new.more), values.decoded(new.call_options)
  local dependencies, lost = edges.unmet(root, options.parents or {}, more.trigger)
  if not dependencies then
    return "PARENT", lost
  end
  local due = tasks.due_of(options, now)
  local holder = more.idem and redis.call("GET", root .. "idem:" .. more.idem)
  local row = holder and tasks.read(root, holder)
  local met = holder and identity.resolve(root, now, holder, row, new, options, dependencies, due)
  if met then
    return met, holder
  end
  local known = special.holder_of_ext(root, more.ext, holder)
  if known then
    return "EXISTS", known
  end
  local lane = lanes.number_of(root, new.kind, new.max_lanes, now)
  if not lane then
    return "LANES", ""
  end
  if holder then
    identity.replace(root, now, holder, row, new)
  end
  return write_special(root, now, new, lane, more, dependencies, due)
end

-- Writes the keys and indexes that lead to a task: its idempotency key, external id, tags and
-- deadline.
function special.write_names(root, now, id, more)
  if more.idem then
    redis.call("SET", root .. "idem:" .. more.idem, id)
  end
  if more.ext then
    redis.call("SET", root .. "ext:" .. more.ext, id)
  end
  for _, tag in ipairs(more.tags or {}) do
    redis.call("ZADD", root .. "tag:" .. tag, now, id)
  end
  if more.deadline then
    redis.call("ZADD", root .. "deadlines", more.deadline, id)
  end
end

-- The task that has an external id already and is neither dead, cancelled nor `replaced`.
function special.holder_of_ext(root, ext, replaced)
  local known = ext and redis.call("GET", root .. "ext:" .. ext)
  local state = known and known ~= replaced
    and redis.call("HGET", root .. "task:" .. known, "state")
  return state and state ~= "DEAD_LETTERED" and state ~= "CANCELLED" and known or nil
end
