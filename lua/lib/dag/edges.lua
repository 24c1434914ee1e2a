-- Edges of a DAG: what a task waits for and who waits for it.

-- What a task that runs is about to wait for, as gather_tasks has noted it for the attempt of this
-- token: nothing where it was for another, though the note is still there.
local function planned_waits_of(root, id, token)
  local noted, parents, goes_on = redis.call("SMEMBERS", root .. "gather:" .. id), {}, false
  for _, one in ipairs(noted) do
    if string.sub(one, 1, 1) == "@" then
      goes_on = string.match(one, " (%S+)$") == token
    else
      parents[#parents + 1] = one
    end
  end
  return goes_on and parents or {}
end

-- What a task waits for, or is about to: by its state one look is enough for most. Of one that was
-- revived and has many parents not all may stand in its set yet, see note_parents.
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
  local parents = redis.call("SMEMBERS", root .. "waits:" .. id)
  for parent in string.gmatch(row[5] or "", "%S+") do
    parents[#parents + 1] = parent
  end
  return parents
end

-- What a task waits for: its set, or its one parent where that is all, see create_task.
function edges.waits_of(root, id)
  local row = redis.call("HMGET", root .. "task:" .. id, "sole", "up0")
  return row[1] == "1" and { row[2] } or redis.call("SMEMBERS", root .. "waits:" .. id)
end

-- Whether a task waits for a parent, see waits_of.
function edges.waits_for(root, id, parent)
  local row = redis.call("HMGET", root .. "task:" .. id, "sole", "up0")
  if row[1] == "1" then
    return row[2] == parent
  end
  return redis.call("SISMEMBER", root .. "waits:" .. id, parent) == 1
end

-- A parent of one that waits for a failure has failed: it waits for no other, at most for its time.
function edges.wait_for_none(root, id)
  local waits = root .. "waits:" .. id
  local timed = redis.call("SISMEMBER", waits, "@time") == 1
  redis.call("DEL", waits)
  if timed then
    redis.call("SADD", waits, "@time")
  end
end

-- The task that a parent's name means, our id or "@<sha>" of a caller's own, and its state; nil
-- where there is none. A caller's own id may look like ours.
local function parent_of(root, name)
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

-- Of the parents named: those that a new task with this trigger waits for, or nil and the one that
-- can never be met. By default a parent must complete: one that is dead may live again. With
-- "all_done" any end is one; with "one_failed" the first death is enough, which is said third, and
-- where every parent has ended without one, and it has no `others`, there is none to wait for.
function edges.unmet(root, parents, trigger, others)
  local open, ended = {}, nil
  for _, parent in ipairs(parents) do
    local id, state = parent_of(root, parent)
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

-- Notes in the hash of a PENDING task which parents it waits for: it dies, and if it lives again it
-- must wait for them again. Tasks that it spawned are not among them: its code asks for them again.
function edges.save(root, id)
  local key = root .. "task:" .. id
  -- One that was revived and has not found all its parents yet still has the note of them.
  if redis.call("HDEL", key, "suspended") == 1 or redis.call("HEXISTS", key, "parents") == 1 then
    return
  end
  redis.call("SREM", root .. "waits:" .. id, "@time")
  local parents = edges.waits_of(root, id)
  if #parents > 0 then
    table.sort(parents)
    redis.call("HSET", key, "parents", table.concat(parents, " "))
  end
end

-- The parents that a task waited for when it died, as `keep_parents` noted them: all, or a `limit`
-- of them from `at` on; and whether there are more.
function edges.saved(root, id, at, limit)
  local kept, parents = redis.call("HGET", root .. "task:" .. id, "parents") or "", {}
  -- An id is 26 letters, and a space stands between two.
  local to = limit and 27 * (at + limit) or #kept
  for parent in string.gmatch(string.sub(kept, 27 * (at or 0) + 1, to), "%S+") do
    parents[#parents + 1] = parent
  end
  return parents, #kept > to
end

-- Lets parents know who waits for them. By its `trigger` they must complete, or only end: those
-- who wait for that are their heirs.
function edges.register(root, id, parents, trigger)
  for _, parent in ipairs(parents) do
    if trigger then
      redis.call("HSET", root .. "heirs:" .. parent, id, trigger)
      tasks.add_flag(root, parent, "h")
    else
      redis.call("ZADD", root .. "dependents:" .. parent, 0, id)
      tasks.add_flag(root, parent, "d")
    end
  end
end

-- Takes a task off the lists of those it waits for, or is about to (`set` is "waits" or "gather"),
-- up to `limit` of them.
function edges.remove_from_all(root, id, set, limit)
  edges.remove(root, id, redis.call("SPOP", root .. set .. ":" .. id, limit))
end

-- Takes a task off the lists of these parents.
function edges.remove(root, id, parents)
  for _, parent in ipairs(parents) do
    if redis.call("ZREM", root .. "dependents:" .. parent, id) == 0 then
      redis.call("HDEL", root .. "heirs:" .. parent, id)
    end
  end
end

-- Whether one of the tasks in `from` waits for `target`, through whatever chain: "CYCLE", or "FAR"
-- where more edges than `walk.left` must be followed to find out, those to `from` among them; nil
-- where none does. What one walk has seen, the next one of the same call passes over.
function edges.reaches(root, from, target, walk)
  local stack, key = {}, root .. "dependents:" .. target
  -- Mostly nobody waits for it: then it can only be one of them itself.
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
      for _, parent in ipairs(edges_of(root, id)) do
        stack[#stack + 1] = parent
        walk.left = walk.left - 1
      end
    end
  end
  return nil
end

-- Notes in `children` a dependent of a parent, for many to be written at once.
local function collect_child(children, parent, id)
  local list = children[parent] or {}
  list[#list + 1], list[#list + 2] = 0, id
  children[parent] = list
end

-- Lets a task of a DAG wait for parents that were written before it, and notes in `children` who
-- is to know of it; those whose one dependent it is name it already. Many parents are also kept in
-- a list, one alone needs no set. Returns how many it did not wait for yet: none where this was
-- sent before.
function edges.link(root, new, children)
  local alone = tasks.has_flag(new.flags, "u")
  if new.sole then
    if not alone then
      collect_child(children, new.above, new.id)
    end
    return new.known and 0 or 1
  end
  local parents, trigger = {}, new.more and new.more.trigger
  for parent in string.gmatch(new.above, "%S+") do
    parents[#parents + 1] = parent
    if trigger then
      redis.call("HSET", root .. "heirs:" .. parent, new.id, trigger)
    elseif not alone then
      collect_child(children, parent, new.id)
    end
  end
  local fresh = redis.call("SADD", root .. "waits:" .. new.id, unpack(parents))
  if fresh > 0 and (#new.above > 431 or new.known) then
    redis.call("RPUSH", root .. "parents:" .. new.id, unpack(parents))
  end
  return fresh
end
