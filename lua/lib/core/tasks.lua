-- A task's hash: its fields, flags and holder, and when it expires.

-- The task's common fields as a table; `state` is nil where there is no such task.
function tasks.read(root, id)
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "lane", "entry", "token",
    "flags", "more", "score")
  return { state = row[1], lane = row[2], entry = row[3], token = row[4], flags = row[5],
    more = values.decoded(row[6]), score = row[7] }
end

-- Whether a task is visible: a task of a DAG is not while the DAG is being written.
function tasks.is_visible(root, row)
  return (row.state ~= "CREATED" and row.state ~= "PENDING")
    or redis.call("HGET", root .. "dag:" .. (tasks.dag_of(row.flags) or ""), "status") ~= "writing"
end

-- Whether a task in this state is not leased and may still run.
function tasks.is_waiting(state)
  return state == "READY" or state == "PENDING" or state == "RETRYING"
end

-- Adds a letter to the task's `flags` field.
function tasks.add_flag(root, id, letter)
  local key = root .. "task:" .. id
  local flags = redis.call("HGET", key, "flags") or ""
  if not tasks.has_flag(flags, letter) then
    redis.call("HSET", key, "flags", flags .. letter)
  end
end

-- Whether the task's `flags` field has a letter: m more, d dependents, w watchers, f failures, n
-- notes, h triggered dependents, s spawned, k steps, p more than 16 dependencies, o a single
-- dependent, which is in its hash, u the only dependent of each of its dependencies, which have it
-- in their hashes, c a price. The field also contains the ULID of its DAG, see tasks.dag_of.
function tasks.has_flag(flags, letter)
  return flags and string.find(flags, letter, 1, true) ~= nil
end

-- The optional attributes of a task: key, tags, deadline, timeout, life ...; mostly none.
function tasks.more(root, id, flags)
  return tasks.has_flag(flags, "m")
    and values.decoded(redis.call("HGET", root .. "task:" .. id, "more")) or {}
end

-- The DAG in the `flags` of a task, nil where it has none: flags are lower-case letters, a ULID has
-- none.
function tasks.dag_of(flags)
  return flags and string.match(flags, "[0-9A-Z]+")
end

-- The tenant of a task in a lane of tenants.
function tasks.tenant_of(root, id)
  return redis.call("HGET", root .. "task:" .. id, "key") or ""
end

-- The parts of a holder, "<claimed ms> <started ms, 0 before> <owner>".
function tasks.split_holder(holder)
  return string.match(holder, "^(%d+) (%d+) (%S+)$")
end

-- What the holder of a lease receives of its task: id, token, created or entry, definition,
-- attempts, reclaims, more, failed_by. For a first claim the first four are enough, see
-- lease.write.
function tasks.holder_row(root, id, token, entry)
  local fields = values.fields_of(root .. "task:" .. id)
  return { id, token, fields.created or entry, definition.read(root, id, fields),
    fields.attempts or "0", fields.reclaims or "0", fields.more or "", fields.failed_by or "" }
end

-- The member of `handoffs` for this delivery of a task.
function tasks.delivery_member(id, token)
  return id .. ":" .. string.match(token, "^%d+")
end

-- Whether a lane is a lane of tenants: the number of such a lane begins with "-".
function tasks.has_tenant(lane)
  return string.byte(lane) == 45
end

-- When a new task may run, in ms, by the delay or the time in its `options`; nil where that is not
-- in the future.
function tasks.due_of(options, now)
  local due = options.at or (options.delay and now + options.delay)
  return due and due > now and due or nil
end

-- The `flags` of a task as a table, parsed once for all tasks of a call that have the same.
function tasks.traits(how, flags)
  how.traits = how.traits or {}
  local traits = how.traits[flags]
  if not traits then
    traits = { dag = tasks.dag_of(flags), more = tasks.has_flag(flags, "m"),
      watched = tasks.has_flag(flags, "w"),
      only = tasks.has_flag(flags, "o"), dependents = tasks.has_flag(flags, "d"),
      triggered = tasks.has_flag(flags, "h") }
    how.traits[flags] = traits
  end
  return traits
end

-- Lets the keys of an ended task expire after `ttl` ms, and removes it from its tags. The set of
-- its dependents does not expire: it is deleted when the last of them is resolved.
function tasks.expire(root, id, ttl, flags, more)
  ttl = more.ttl or ttl
  redis.call("PEXPIRE", root .. "task:" .. id, ttl)
  redis.call("PEXPIRE", root .. "def:" .. id, ttl)
  redis.call("PEXPIRE", root .. "result:" .. id, ttl)
  if tasks.has_flag(flags, "f") then
    redis.call("PEXPIRE", root .. "failures:" .. id, ttl)
  end
  if tasks.has_flag(flags, "n") then
    redis.call("PEXPIRE", root .. "notes:" .. id, ttl)
    redis.call("PEXPIRE", root .. "logs:" .. id, ttl)
  end
  if tasks.has_flag(flags, "p") then
    redis.call("PEXPIRE", root .. "parents:" .. id, ttl)
  end
  if tasks.has_flag(flags, "s") then
    redis.call("PEXPIRE", root .. "spawned:" .. id, ttl)
  end
  if tasks.has_flag(flags, "k") then
    redis.call("PEXPIRE", root .. "steps:" .. id, ttl)
  end
  for _, tag in ipairs(more.tags or {}) do
    redis.call("ZREM", root .. "tag:" .. tag, id)
  end
  if more.ext and redis.call("GET", root .. "ext:" .. more.ext) == id then
    redis.call("PEXPIRE", root .. "ext:" .. more.ext, ttl)
  end
end
