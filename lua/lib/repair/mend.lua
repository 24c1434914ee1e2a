-- Repairs indexes from the state of a task.

-- Repairs a task that is not committed: the commit of its DAG must reach it, or the DAG be dropped
-- with it. Returns whether neither was going to happen.
local function mend_created(root, now, id, flags)
  local dag = tasks.dag_of(flags) or ""
  local status = redis.call("HGET", root .. "dag:" .. dag, "status")
  if not status then
    redis.call("RPUSH", root .. "members:" .. dag, id)
    redis.call("ZADD", root .. "writing", "NX", 0, dag)
    return true
  elseif status == "writing" then
    return redis.call("ZADD", root .. "writing", "NX", now, dag) == 1
  end
  if redis.call("HSETNX", root .. "unfinished", "commit " .. dag, 0) == 0 then
    return false
  end
  redis.call("RPUSH", root .. "fresh:" .. dag, id)
  return true
end

-- Adds a task to the dependents of a dependency, by the trigger `kind` if it has one. Returns
-- whether it was missing; a task that waits for what it spawned may be in either place.
local function mend_edge(root, dependency, id, kind, resolved)
  local dependents, triggered = root .. "dependents:" .. dependency, root .. "heirs:" .. dependency
  local only = not resolved and redis.call("HGET", root .. "task:" .. dependency, "down") == id
  if only or redis.call("ZSCORE", dependents, id) or redis.call("HEXISTS", triggered, id) == 1 then
    return false
  elseif kind then
    redis.call("HSET", triggered, id, kind)
  else
    redis.call("ZADD", dependents, 0, id)
  end
  tasks.add_flag(root, dependency, kind and "h" or "d")
  return true
end

-- Returns the stream entry of a task, a new one where it has none of its own.
local function mend_entry(root, now, id, entry)
  local ready, key = root .. "ready", root .. "task:" .. id
  local found = entry and redis.pcall("XRANGE", ready, entry, entry)[1]
  if found and found[2][2] == id then
    return entry
  end
  -- The id of the entry is the time of creation until the task has another entry.
  redis.call("HSETNX", key, "created", string.match(entry or "", "^(%d+)%-%d+$") or now)
  local fresh = redis.call("XADD", ready, "*", "task", id)
  redis.call("HSET", key, "entry", fresh)
  return fresh
end

-- Counts a leased task for its tenant. Returns whether that was missing.
local function mend_running(root, id, lane)
  return redis.call("ZADD", root .. "hand:" .. tasks.tenant_of(root, id), "NX", lane, id) == 1
end

-- Puts a READY task of a lane of tenants back among those of its tenant. Returns whether it was
-- missing.
local function mend_tenant(root, id, lane, score)
  local tenant = tasks.tenant_of(root, id)
  local keyed = root .. "keyed:" .. lane .. ":" .. tenant
  local missing = redis.call("ZADD", keyed, "NX", score, id) == 1
  tenants.update_heads(root, lane, { tenant })
  return missing
end

-- Puts a leased task back into the pending list of its holder, where it is in none: a live holder
-- renews it, and the reaper finds that of a dead one. Returns whether it was missing. A lease on a
-- deleted entry does not count as missing: the sweep of the stream handles it first.
local function mend_lease(root, now, id, entry, holder)
  local held = entry and redis.pcall("XPENDING", root .. "ready", "workers", entry, entry, 1)
  if held and not held.err and #held > 0 then
    return false
  end
  local _, _, owner = tasks.split_holder(holder or "0 0 nobody")
  lease.take_entries(root, owner, { mend_entry(root, now, id, entry) })
  redis.call("ZADD", root .. "workers", "NX", now, owner)
  return true
end

-- Checks up to `limit` of the dependencies of a PENDING task, at random: each must have it among
-- its dependents, and one that has ended must be going to resolve them. Returns whether any was
-- missing.
local function mend_dependencies(root, id, limit)
  local more = redis.call("HGET", root .. "task:" .. id, "more")
  local mended, kind = false, values.decoded(more).trigger
  local sole = redis.call("EXISTS", root .. "waits:" .. id) == 0 and edges.waits_of(root, id)
  for _, dependency in ipairs(sole or redis.call("SRANDMEMBER", root .. "waits:" .. id, limit)) do
    local state = redis.call("HGET", root .. "task:" .. dependency, "state")
    if state and mend_edge(root, dependency, id, kind, state == "COMPLETED") then
      mended = true
    end
    if redis.call("HEXISTS", root .. "heirs:" .. dependency, id) == 1 then
      local ended = state == "COMPLETED" or state == "CANCELLED" or state == "DEAD_LETTERED"
      mended = ended and redis.call("SADD", root .. "telling", dependency) == 1 or mended
    elseif state == "COMPLETED" then
      mended = redis.call("SADD", root .. "unblocking", dependency) == 1 or mended
    elseif state == "CANCELLED" then
      mended = redis.call("HSETNX", root .. "cancelling", "children " .. dependency,
        "cascade cancelled") == 1 or mended
    end
  end
  return mended
end

-- Puts a READY task back into its lane, unless it is held with its DAG; where the DAG is being
-- cancelled, that step must be scheduled. Returns whether anything was missing.
-- `row` is state, lane, score, entry, ..., flags.
local function mend_ready(root, now, id, row)
  local dag, mended = tasks.dag_of(row[8]), false
  if dag and redis.call("HEXISTS", root .. "dag:" .. dag, "closing") == 1 then
    mended = redis.call("HSETNX", root .. "unfinished", "cancel " .. dag, 0) == 1
  end
  if dag and (redis.call("SISMEMBER", root .. "held:" .. dag, id) == 1
    or redis.call("ZSCORE", root .. "unpaid:" .. dag, id)) then
    return mended
  end
  local missing = redis.call("ZADD", root .. "lane:" .. row[2], "NX", row[3], id) == 1
  if missing then
    mend_entry(root, now, id, row[4])
  end
  if tasks.has_tenant(row[2]) then
    missing = mend_tenant(root, id, row[2], row[3]) or missing
  end
  return missing or mended
end

-- Puts a PENDING task back into the indexes of what it waits for; one that waits inside a DAG is
-- not in `blocked`. One that waits for nothing is due at once: the promoter makes it READY. One
-- that is about to be cancelled waits for that. `row` is that of mend.task. Returns whether
-- anything was missing.
local function mend_waiting(root, now, id, row, limit)
  local waits = root .. "waits:" .. id
  local mended = not row[9] and redis.call("ZADD", root .. "blocked", "NX", now, id) == 1
  if redis.call("HEXISTS", root .. "cancelling", id) == 1 then
    return mended
  end
  local sole = redis.call("HGET", root .. "task:" .. id, "sole") == "1"
  if not sole and redis.call("EXISTS", waits) == 0 then
    redis.call("SADD", waits, "@time")
    mended = true
  end
  if redis.call("SISMEMBER", waits, "@time") == 1
    and redis.call("ZADD", root .. "delayed", "NX", row[6] or now, id) == 1 then
    mended = true
  end
  if redis.call("SISMEMBER", waits, "@parents") == 1 then
    -- It is not registered with all of them yet: that step must be scheduled.
    return redis.call("HSETNX", root .. "unfinished", "revive " .. id, 0) == 1 or mended
  end
  return mend_dependencies(root, id, limit) or mended
end

-- Whether a task is part of a DAG that is not committed: CREATED, or PENDING for others of it.
-- Where the DAG itself is lost, a task that waits for an uncommitted one was not committed either.
local function is_uncommitted(root, state, flags, up)
  local dag = tasks.dag_of(flags)
  if state ~= "PENDING" or not dag then
    return state == "CREATED"
  end
  local status = redis.call("HGET", root .. "dag:" .. dag, "status")
  if status or not up then
    return status == "writing"
  end
  local dependency = redis.call("HGET", root .. "task:" .. string.sub(up, 1, 26), "state")
  return not dependency or dependency == "CREATED"
end

-- Puts a task back into every index that its state requires. Returns whether it was missing in any,
-- nil where it has no state. Between two calls a task is always in them: only the damage of a crash
-- is found here. The entry of a READY task in its lane is not checked, which would cost more than
-- all else: a claim that misses the entry adds the task to `orphans`.
function mend.task(root, now, id, limit)
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "lane", "score", "entry",
    "holder", "due", "finished", "flags", "up0")
  local state = row[1]
  if not state then
    return nil
  elseif state == "READY" then
    return mend_ready(root, now, id, row)
  elseif state == "CLAIMED" or state == "RUNNING" or state == "VALIDATING" then
    local missing = tasks.has_tenant(row[2]) and mend_running(root, id, row[2])
    return mend_lease(root, now, id, row[4], row[5]) or missing
  elseif is_uncommitted(root, state, row[8], row[9]) then
    return mend_created(root, now, id, row[8])
  elseif state == "PENDING" then
    return mend_waiting(root, now, id, row, limit)
  elseif state == "RETRYING" then
    return redis.call("ZADD", root .. "delayed", "NX", row[6] or now, id) == 1
  elseif state == "DEAD_LETTERED" then
    return redis.call("ZADD", root .. "dead", "NX", row[7] or now, id) == 1
  end
  return false
end

-- Deletes a hash without a state, which a submit left that a crash interrupted. Releases its
-- idempotency key and its external id, so that its producer can send it again. Returns whether
-- there was one.
function mend.drop_torn(root, id)
  local key = root .. "task:" .. id
  if redis.call("EXISTS", key) == 0 or redis.call("HEXISTS", key, "state") == 1 then
    return false
  end
  local more = values.decoded(redis.call("HGET", key, "more"))
  identity.release(root, id, more)
  if more.ext and redis.call("GET", root .. "ext:" .. more.ext) == id then
    redis.call("DEL", root .. "ext:" .. more.ext)
  end
  for _, tag in ipairs(more.tags or {}) do
    redis.call("ZREM", root .. "tag:" .. tag, id)
  end
  redis.call("ZREM", root .. "deadlines", id)
  redis.call("DEL", key, root .. "def:" .. id)
  return true
end

-- Counts repairs and returns their number. Writes nothing where there were none.
function mend.count_repaired(root, number)
  if number > 0 then
    redis.call("HINCRBY", root .. "stats", "repaired", number)
  end
  return number
end

-- Whether a member belongs to a sorted set of tenants: `keyed` has the READY tasks of a lane and a
-- tenant, `hand` the leased tasks of a tenant, `turns` tenants with tasks to claim, `shut` tenants
-- whose gates will open, or that have leased tasks.
local function tenant_belongs(root, index, member)
  local kind, lane, tenant = string.match(index, "^(%a+):(%-?%d*):?(.*)$")
  if kind == "turns" then
    return redis.call("EXISTS", root .. "keyed:" .. lane .. ":" .. member) == 1
  elseif kind == "shut" then
    local opens = tonumber(redis.call("ZSCORE", root .. index, member) or "0")
    return opens < math.huge or redis.call("EXISTS", root .. "hand:" .. member) == 1
  end
  local row = redis.call("HMGET", root .. "task:" .. member, "state", "lane", "key")
  if kind == "keyed" then
    return row[1] == "READY" and row[2] == lane and row[3] == tenant
  end
  local is_leased = row[1] == "CLAIMED" or row[1] == "RUNNING" or row[1] == "VALIDATING"
  return is_leased and index == "hand:" .. tostring(row[3])
end

-- Whether a task belongs to a sorted set: a lane and its heads have the READY tasks of that number,
-- `handoffs` deliveries as `task:epoch`, which may be started already, a tag and `deadlines` every
-- task that exists.
function mend.belongs(root, index, member)
  local kind, lane = string.match(index, "^(%a+):?(.*)$")
  if kind == "keyed" or kind == "turns" or kind == "shut" or kind == "hand" then
    return tenant_belongs(root, index, member)
  end
  local id, epoch = member, nil
  if index == "handoffs" then
    id, epoch = string.match(member, "^(.+):(%d+)$")
  end
  local row = redis.call("HMGET", root .. "task:" .. (id or ""), "state", "lane", "token")
  local state = row[1]
  if kind == "lane" or kind == "heads" then
    return state == "READY" and lane == tostring(row[2])
  elseif index == "handoffs" then
    local is_leased = state == "CLAIMED" or state == "RUNNING" or state == "VALIDATING"
    return is_leased and string.match(row[3], "^%d+") == epoch
  elseif index == "delayed" then
    return state == "RETRYING" or state == "PENDING"
  elseif index == "blocked" then
    return state == "PENDING"
  elseif index == "dead" then
    return state == "DEAD_LETTERED"
  end
  return state ~= false
end
