-- Edges of a DAG: the dependencies and the dependents of a task.

-- What a running task is about to wait for, as plan_wait in spawn.lua has noted it for the attempt
-- of this token: nothing where the note is of another attempt, even if it still exists.
local function planned_waits_of(root, id, token)
  local noted, dependencies, current = redis.call("SMEMBERS", root .. "gather:" .. id), {}, false
  for _, one in ipairs(noted) do
    if string.sub(one, 1, 1) == "@" then
      current = string.match(one, " (%S+)$") == token
    else
      dependencies[#dependencies + 1] = one
    end
  end
  return current and dependencies or {}
end

-- What a task waits for, or is about to: for most states one read is enough. The set of a revived
-- task with many dependencies may not have all of them yet, see revive.register_dependencies.
local function edges_of(root, id)
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "sole", "up0", "token", "parents")
  local state = row[1]
  if state == "RUNNING" then
    return planned_waits_of(root, id, row[4])
  elseif row[2] == "1" then
    return { row[3] }
  elseif state ~= "PENDING" and state ~= "CREATED" then
    return {}
  end
  local dependencies = redis.call("SMEMBERS", root .. "waits:" .. id)
  for dependency in string.gmatch(row[5] or "", "%S+") do
    dependencies[#dependencies + 1] = dependency
  end
  return dependencies
end

-- What a task waits for: its set, or its single dependency where it has no set, see create_task.
function edges.waits_of(root, id)
  local row = redis.call("HMGET", root .. "task:" .. id, "sole", "up0")
  return row[1] == "1" and { row[2] } or redis.call("SMEMBERS", root .. "waits:" .. id)
end

-- Whether a task waits for this dependency, see edges.waits_of.
function edges.waits_for(root, id, dependency)
  local row = redis.call("HMGET", root .. "task:" .. id, "sole", "up0")
  if row[1] == "1" then
    return row[2] == dependency
  end
  return redis.call("SISMEMBER", root .. "waits:" .. id, dependency) == 1
end

-- A dependency of a one_failed task has failed: the task waits for no other, at most for its time.
function edges.wait_for_none(root, id)
  local waits = root .. "waits:" .. id
  local timed = redis.call("SISMEMBER", waits, "@time") == 1
  redis.call("DEL", waits)
  if timed then
    redis.call("SADD", waits, "@time")
  end
end

-- The task that the name of a dependency means, our id or "@<sha>" of an external id, and its
-- state; no state where it does not exist. An external id may have the form of ours.
local function dependency_of(root, name)
  local own, id = string.match(name, "^@(.+)"), name
  local function state_of()
    local row = redis.call("HMGET", root .. "task:" .. id, "state", "flags")
    return tasks.is_visible(root, { state = row[1], flags = row[2] }) and row[1]
  end
  local state = not own and state_of()
  if not state then
    id = redis.call("GET", root .. "ext:" .. (own or id)) or id
    state = state_of()
  end
  return id, state
end

-- Of the dependencies named: those that a new task with this trigger waits for, or nil and the one
-- that can never be met. By default a dependency must complete: a dead one may be retried. With
-- "all_done" any end meets it; with "one_failed" the first death is enough, then the third result
-- is true, and where all have ended without one, and the task has no `others`, none can be met.
function edges.unmet(root, dependencies, trigger, others)
  local open, ended = {}, nil
  for _, dependency in ipairs(dependencies) do
    local id, state = dependency_of(root, dependency)
    if not state or (state == "CANCELLED" and not trigger) then
      return nil, id
    elseif state == "DEAD_LETTERED" and trigger == "one_failed" then
      return {}, nil, true
    elseif state == "COMPLETED" or (trigger and (state == "CANCELLED"
      or state == "DEAD_LETTERED")) then
      ended = id
    else
      open[#open + 1] = id
    end
  end
  if trigger == "one_failed" and #open == 0 and ended and not others then
    return nil, ended
  end
  return open
end

-- Stores in the hash of a PENDING task what it waits for: the task dies, and must wait for it again
-- if it is revived. Tasks that it spawned are left out: its code spawns them again.
function edges.save(root, id)
  local key = root .. "task:" .. id
  -- A task that was revived and is not registered with all its dependencies yet still has the
  -- field.
  if redis.call("HDEL", key, "suspended") == 1 or redis.call("HEXISTS", key, "parents") == 1 then
    return
  end
  redis.call("SREM", root .. "waits:" .. id, "@time")
  local dependencies = edges.waits_of(root, id)
  if #dependencies > 0 then
    table.sort(dependencies)
    redis.call("HSET", key, "parents", table.concat(dependencies, " "))
  end
end

-- The dependencies that a task waited for when it died, as edges.save stored them: all, or a
-- `limit` of them from `at` on. Also returns whether there are more.
function edges.saved(root, id, at, limit)
  local kept, dependencies = redis.call("HGET", root .. "task:" .. id, "parents") or "", {}
  -- An id has 26 letters, and a space separates two.
  local to = limit and 27 * (at + limit) or #kept
  for dependency in string.gmatch(string.sub(kept, 27 * (at or 0) + 1, to), "%S+") do
    dependencies[#dependencies + 1] = dependency
  end
  return dependencies, #kept > to
end

-- Adds a task to the dependents of its dependencies. Without a `trigger` these must complete; with
-- one they must only end: the task is one of their triggered dependents.
function edges.register(root, id, dependencies, trigger)
  for _, dependency in ipairs(dependencies) do
    if trigger then
      redis.call("HSET", root .. "heirs:" .. dependency, id, trigger)
      tasks.add_flag(root, dependency, "h")
    else
      redis.call("ZADD", root .. "dependents:" .. dependency, 0, id)
      tasks.add_flag(root, dependency, "d")
    end
  end
end

-- Removes a task from the dependents of what it waits for, or is about to (`set` is "waits" or
-- "gather"), up to `limit` of them; removes those from the set, too.
function edges.remove_from_all(root, id, set, limit)
  edges.remove(root, id, redis.call("SPOP", root .. set .. ":" .. id, limit))
end

-- Removes a task from the dependents of these dependencies.
function edges.remove(root, id, dependencies)
  for _, dependency in ipairs(dependencies) do
    if redis.call("ZREM", root .. "dependents:" .. dependency, id) == 0 then
      redis.call("HDEL", root .. "heirs:" .. dependency, id)
    end
  end
end

-- Whether one of the tasks in `from` waits for `target`, directly or through others: "CYCLE", or
-- "FAR" where more than `walk.left` edges would be followed to find out, those to `from` included;
-- nil where none does. Later walks of the same call skip the tasks that an earlier one has visited.
function edges.reaches(root, from, target, walk)
  local stack, key = {}, root .. "dependents:" .. target
  -- Mostly the target has no dependents: then only a member of `from` can be the target.
  local awaited = redis.call("EXISTS", key, root .. "heirs:" .. target) > 0
    or redis.call("HEXISTS", root .. "task:" .. target, "down") == 1
  for i, id in ipairs(from) do
    stack[i] = id
  end
  walk.left = walk.left - (awaited and #from or 0)
  while #stack > 0 do
    local id = table.remove(stack)
    if id == target then
      return "CYCLE"
    elseif walk.left < 0 then
      return "FAR"
    elseif awaited and not walk.seen[id] then
      walk.seen[id] = true
      for _, dependency in ipairs(edges_of(root, id)) do
        stack[#stack + 1] = dependency
        walk.left = walk.left - 1
      end
    end
  end
  return nil
end

-- Adds a dependent of a dependency to `dependents`, so that many are written at once.
local function collect_dependent(dependents, dependency, id)
  local list = dependents[dependency] or {}
  list[#list + 1], list[#list + 2] = 0, id
  dependents[dependency] = list
end

-- Makes a task of a DAG wait for dependencies that were written before it, and collects it for
-- their sets in `dependents`; a dependency with a single dependent has that in its hash already.
-- Many dependencies are also stored in a list, a single one needs no set. Returns the number of new
-- edges: none where the task was sent before.
function edges.link(root, new, dependents)
  local is_only = tasks.has_flag(new.flags, "u")
  if new.sole then
    if not is_only then
      collect_dependent(dependents, new.above, new.id)
    end
    return new.known and 0 or 1
  end
  local dependencies, trigger = {}, new.more and new.more.trigger
  for dependency in string.gmatch(new.above, "%S+") do
    dependencies[#dependencies + 1] = dependency
    if trigger then
      redis.call("HSET", root .. "heirs:" .. dependency, new.id, trigger)
    elseif not is_only then
      collect_dependent(dependents, dependency, new.id)
    end
  end
  local fresh = redis.call("SADD", root .. "waits:" .. new.id, unpack(dependencies))
  if fresh > 0 and (#new.above > 431 or new.known) then
    redis.call("RPUSH", root .. "parents:" .. new.id, unpack(dependencies))
  end
  return fresh
end
