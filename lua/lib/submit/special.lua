-- Submits a task with a key, a delay, dependencies, tags or a deadline.

-- Writes what is special about an accepted task; the whole task where it has to wait.
local function write_special(root, now, new, lane, more, parents, due)
  local id = new.id
  if new.more ~= "" then
    redis.call("HSET", root .. "task:" .. id, "more", new.more, "flags", "m")
  end
  special.write_names(root, now, id, more)
  if #parents == 0 and not due then
    return nil
  end
  definition.write(root, id, new.def)
  redis.call("HSET", root .. "task:" .. id, "state", "PENDING", "lane", lane, "created", now,
    "score", new.score, unpack(due and { "due", due } or {}))
  if new.key then
    redis.call("HSET", root .. "task:" .. id, "key", new.key)
  end
  if #parents > 0 then
    status.join(root, now, id, parents, cjson.decode(new.how).max_nodes)
  end
  indexes.block(root, id, parents, due, more.trigger)
  indexes.add_pending(root, now, id, due)
  lanes.count(root, lane, "PENDING", 1)
  return "PENDING"
end

-- A task with a key, a delay, parents, tags or a deadline. Nothing is written unless it is taken.
-- Returns nil when the caller shall make it READY, else a word and its detail.
function special.submit(root, now, new)
  local more, ask = values.decoded(new.more), values.decoded(new.ask)
  local parents, lost = edges.unmet(root, ask.parents or {}, more.trigger)
  if not parents then
    return "PARENT", lost
  end
  local due = tasks.due_of(ask, now)
  local holder = more.idem and redis.call("GET", root .. "idem:" .. more.idem)
  local row = holder and tasks.read(root, holder)
  local met = holder and identity.resolve(root, now, holder, row, new, ask, parents, due)
  if met then
    return met, holder
  end
  local known = special.named_already(root, more.ext, holder)
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
  return write_special(root, now, new, lane, more, parents, due)
end

-- Writes what leads to a task by other names: its key, its producer's id, tags, deadline.
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

-- The task that bears a caller's own id already and is neither dead, cancelled nor `replaced`.
function special.named_already(root, ext, replaced)
  local known = ext and redis.call("GET", root .. "ext:" .. ext)
  local state = known and known ~= replaced
    and redis.call("HGET", root .. "task:" .. known, "state")
  return state and state ~= "DEAD_LETTERED" and state ~= "CANCELLED" and known or nil
end
