-- A task's hash: its fields, flags and holder, and when it expires.

-- The task's common fields as a table; `state` is nil where there is no such task.
function tasks.read(root, id)
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "lane", "entry", "token",
    "flags", "more", "score")
  return { state = row[1], lane = row[2], entry = row[3], token = row[4], flags = row[5],
    more = values.decoded(row[6]), score = row[7] }
end

-- Whether a task is there for everyone: not while the DAG that it is part of is being written.
function tasks.is_visible(root, row)
  return (row.state ~= "CREATED" and row.state ~= "PENDING")
    or redis.call("HGET", root .. "dag:" .. (tasks.dag_of(row.flags) or ""), "status") ~= "writing"
end

-- Whether a state is one in which nobody holds the task and it may still run.
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

-- Whether the task's `flags` field has a letter: m more, d dependents, w watchers, f failures,
-- n notes, h heirs, s spawned, k steps, p many parents, o one dependent in its hash, u the one that
-- each of its parents has there, c a price. The ULID of its DAG stands among them, see dag_of.
function tasks.has_flag(flags, letter)
  return flags and string.find(flags, letter, 1, true) ~= nil
end

-- What the task has beyond the plain: key, tags, deadline, timeout, life ...; mostly nothing.
function tasks.more(root, id, flags)
  return tasks.has_flag(flags, "m")
    and values.decoded(redis.call("HGET", root .. "task:" .. id, "more")) or {}
end

-- The DAG that a task belongs to, as its `flags` name it: their letters are small, a ULID is not.
-- Nil for a task that is alone.
function tasks.dag_of(flags)
  return flags and string.match(flags, "[0-9A-Z]+")
end

-- The key of a task that is in a lane of such.
function tasks.tenant_of(root, id)
  return redis.call("HGET", root .. "task:" .. id, "key") or ""
end

-- The words of a holder, "<claimed ms> <started ms, 0 before> <owner>".
function tasks.split_holder(holder)
  return string.match(holder, "^(%d+) (%d+) (%S+)$")
end

-- What the holder of a lease is told of its task: id, token, created or entry, definition,
-- attempts, reclaims, more, failed_by. One that is fresh needs but the first four, see write_claim.
function tasks.holder_row(root, id, token, entry)
  local fields = values.fields_of(root .. "task:" .. id)
  return { id, token, fields.created or entry, definition.read(root, id, fields),
    fields.attempts or "0", fields.reclaims or "0", fields.more or "", fields.failed_by or "" }
end

-- The member of `handoffs` that stands for this claim of the task.
function tasks.delivery_member(id, token)
  return id .. ":" .. string.match(token, "^%d+")
end

-- Whether a lane is one of tasks with a key: the number of such a lane begins with "-".
function tasks.has_tenant(lane)
  return string.byte(lane) == 45
end

-- When a task may run, in ms, by its delay or its time; nil where that is not later than now.
function tasks.due_of(ask, now)
  local due = ask.at or (ask.delay and now + ask.delay)
  return due and due > now and due or nil
end

-- What the `flags` of a task say, read once for all tasks of a call that have the same.
function tasks.traits(how, flags)
  how.traits = how.traits or {}
  local traits = how.traits[flags]
  if not traits then
    traits = { dag = tasks.dag_of(flags), more = tasks.has_flag(flags, "m"),
      watched = tasks.has_flag(flags, "w"),
      only = tasks.has_flag(flags, "o"), dependents = tasks.has_flag(flags, "d"),
      heirs = tasks.has_flag(flags, "h") }
    how.traits[flags] = traits
  end
  return traits
end

-- Lets the keys of an ended task expire after `ttl` ms, and takes it off its tags' lists. Its
-- dependents are not forgotten: their set goes when the last of them is told.
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
