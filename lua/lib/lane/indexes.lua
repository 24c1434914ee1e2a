-- The indexes of each state: lane, delayed, blocked, the ready stream.

-- Writes what a call has collected in `how` to the indexes, and empties it: the `scores` of tasks
-- by lane, `blocked` and `unblocked` tasks, and the `counts` of lanes.
function indexes.enter(root, how)
  for lane, scores in pairs(how.scores) do
    lanes.enter(root, lane, scores)
  end
  if #how.blocked > 0 then
    redis.call("ZADD", root .. "blocked", unpack(how.blocked))
  end
  if #how.unblocked > 0 then
    redis.call("ZREM", root .. "blocked", unpack(how.unblocked))
  end
  for lane, states in pairs(how.counts) do
    for state, number in pairs(states) do
      if number ~= 0 then
        lanes.count(root, lane, state, number)
      end
    end
  end
  how.scores, how.blocked, how.unblocked, how.counts = {}, {}, {}, {}
end

-- Removes a live task from every index of its state; the caller changes its hash.
function indexes.leave(root, id, state, lane, entry, token)
  if state == "READY" then
    if lanes.leave(root, lane, id) == 0 then
      paused.release_task(root, id, lane)
    end
    indexes.delete_entry(root, entry)
  elseif state == "PENDING" or state == "CREATED" then
    local waits = root .. "waits:" .. id
    -- More than 16 would take too long: those dependencies skip a dependent that no longer waits.
    if redis.call("SCARD", waits) <= 16 then
      edges.remove(root, id, edges.waits_of(root, id))
    end
    redis.call("ZREM", root .. "blocked", id)
    redis.call("ZREM", root .. "delayed", id)
    redis.call("DEL", waits)
    redis.call("HDEL", root .. "task:" .. id, "sole")
  elseif state == "RETRYING" then
    redis.call("ZREM", root .. "delayed", id)
  else
    indexes.delete_entry(root, entry)
    redis.call("ZREM", root .. "handoffs", tasks.delivery_member(id, token))
    wake.left_running(root, id, lane)
  end
end

-- A table in which a call collects the tasks that it frees or blocks, see indexes.enter. `left` is
-- how many of them the call may process.
function indexes.collector(left)
  return indexes.prepare({}, left)
end

-- Adds the fields of a collector to the table `how` of a caller, and returns it.
function indexes.prepare(how, left)
  how.left, how.touched, how.readied, how.scores = left, how.touched or {}, {}, {}
  how.blocked, how.unblocked, how.counts, how.met, how.order = {}, {}, {}, {}, {}
  return how
end

-- Makes a task READY that waits for nothing more, with a new stream entry. Its score is collected
-- in `how`, see indexes.enter. A task whose `flags` name a DAG that is paused or being cancelled is
-- held instead. `sole`: the task waited for a single dependency, which is noted in its hash instead
-- of a set.
function indexes.make_ready(root, id, lane, score, how, flags, sole)
  local entry = redis.call("XADD", root .. "ready", "*", "task", id)
  if sole then
    redis.call("HSET", root .. "task:" .. id, "state", "READY", "entry", entry, "sole", 0)
  else
    redis.call("HSET", root .. "task:" .. id, "state", "READY", "entry", entry)
  end
  local dag = flags and paused.holding_dag(root, flags, how)
  if dag then
    return paused.hold(root, dag, id, lane)
  end
  local scores = how.scores[lane] or {}
  scores[#scores + 1], scores[#scores + 2] = score, id
  how.scores[lane], how.touched[lane] = scores, true
end

-- Deletes a task's entry from the stream and from any worker's pending list.
function indexes.delete_entry(root, entry)
  redis.call("XACK", root .. "ready", "workers", entry)
  redis.call("XDEL", root .. "ready", entry)
end

-- Deletes many entries from the stream and from the pending lists. XDEL searches the node of each
-- entry; entries at the head of the stream, as most are, are deleted by one XTRIM instead.
function indexes.delete_entries(root, entries)
  local ready, freed = root .. "ready", {}
  redis.call("XACK", ready, "workers", unpack(entries))
  if #entries == 1 then
    redis.call("XDEL", ready, entries[1])
    return
  end
  for _, entry in ipairs(entries) do
    freed[entry] = true
  end
  local first = redis.call("XRANGE", ready, "-", "+", "COUNT", 1)[1]
  if first and freed[first[1]] then
    local first_kept
    for _, found in ipairs(redis.call("XRANGE", ready, "-", "+", "COUNT", #entries + 1)) do
      if not freed[found[1]] then
        first_kept = found[1]
        break
      end
      freed[found[1]] = nil
    end
    redis.call("XTRIM", ready, first_kept and "MINID" or "MAXLEN", "=", first_kept or 0)
  end
  local left = {}
  for entry in pairs(freed) do
    left[#left + 1] = entry
  end
  if #left > 0 then
    redis.call("XDEL", ready, unpack(left))
  end
end

-- Adds a PENDING task to `blocked`, and to `delayed` if it waits for the time `due`.
function indexes.add_pending(root, now, id, due)
  redis.call("ZADD", root .. "blocked", now, id)
  if due then
    redis.call("ZADD", root .. "delayed", due, id)
  end
end

-- Writes what a waiting task waits for: its dependencies, and "@time" until `due`.
function indexes.block(root, id, dependencies, due, trigger)
  local waits = root .. "waits:" .. id
  for _, dependency in ipairs(dependencies) do
    redis.call("SADD", waits, dependency)
  end
  edges.register(root, id, dependencies, trigger)
  if due then
    redis.call("SADD", waits, "@time")
  end
end

-- Lets a waiting task wait until `due`. A RETRYING task keeps its state; a READY or PENDING one is
-- PENDING and waits for "@time".
function indexes.delay(root, now, id, row, due)
  local key, state = root .. "task:" .. id, row.state
  if state == "READY" then
    indexes.leave(root, id, state, row.lane, row.entry)
    redis.call("HSETNX", key, "created", string.match(row.entry, "^%d+"))
    redis.call("HSET", key, "state", "PENDING")
    redis.call("HDEL", key, "entry")
    redis.call("ZADD", root .. "blocked", now, id)
    lanes.count(root, row.lane, "PENDING", 1)
    state = "PENDING"
  end
  if state == "PENDING" then
    if redis.call("HGET", key, "sole") == "1" then
      redis.call("SADD", root .. "waits:" .. id, redis.call("HGET", key, "up0"))
      redis.call("HDEL", key, "sole")
    end
    redis.call("SADD", root .. "waits:" .. id, "@time")
  end
  redis.call("HSET", key, "due", due)
  redis.call("ZADD", root .. "delayed", due, id)
end
