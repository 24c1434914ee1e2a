-- A DAG's counters and its status.

-- Notes in `how` that a task moves from one counter of its DAG to another, if it has a DAG.
function status.tally(how, flags, from, to)
  local dag = tasks.dag_of(flags)
  if dag then
    status.tally_dag_of(how, dag, from, to)
  end
end

-- Notes in `how` that a task of a DAG moves from one counter to another: open, dead, cancelled, or
-- none for a completion. status.write_tallies writes those of a call at once.
function status.tally_dag_of(how, dag, from, to)
  how.dags = how.dags or {}
  local by = how.dags[dag] or {}
  how.dags[dag] = by
  by[from] = (by[from] or 0) - 1
  if to then
    by[to] = (by[to] or 0) + 1
  end
end

-- Ends a DAG of which every task is completed or cancelled. Its outputs begin to expire, its
-- watchers are notified, and the DAG that follows it is submitted, in steps of later calls. That it
-- has failed was reported when it did.
local function complete_dag(root, now, dag, events)
  local key = root .. "dag:" .. dag
  local row = redis.call("HMGET", key, "closing", "cancelled", "total", "follow", "status")
  local status = row[1] or (row[2] == row[3] and "cancelled") or "completed"
  redis.call("HSET", key, "status", status, "finished", string.format("%.0f", now))
  redis.call("HSET", root .. "unfinished", "forget " .. dag, 0)
  if row[4] and status == "completed" then
    redis.call("HSET", root .. "unfinished", "follow " .. dag, 0)
  end
  if status ~= row[5] then
    local named = { cancelled = "dag.cancelled", failed = "dag.failed" }
    event.emit(root, events, named[status] or "dag.completed", dag, row[3])
  end
  mailbox.notify_dag(root, dag)
end

-- Handles a DAG with dead tasks. Emits dag.failed once, and dag.escalated when their number reaches
-- the threshold of its producer. With fail_fast the rest is cancelled, and nothing of it can be
-- claimed any more, once another task has `died`: one that is retried beside a dead one must still
-- run.
local function fail_dag(root, dag, status, events, died)
  local key = root .. "dag:" .. dag
  local row = redis.call("HMGET", key, "dead", "total", "threshold", "escalated", "on_failure",
    "closing", "cancelled")
  local dead, threshold = tonumber(row[1]), tonumber(row[3])
  if status ~= "failed" then
    redis.call("HSET", key, "status", "failed")
    event.emit(root, events, "dag.failed", dag, row[1])
    mailbox.notify_dag(root, dag)
  end
  -- A threshold below 1 is a share of all tasks.
  if threshold and not row[4]
    and dead >= (threshold < 1 and threshold * row[2] or threshold) then
    redis.call("HSET", key, "escalated", row[1])
    event.emit(root, events, "dag.escalated", dag, row[1])
  end
  if died and row[5] == "fail_fast" and not row[6] then
    redis.call("HSET", key, "closing", "failed", "why", "a task of the DAG failed for good",
      "before", row[7])
    redis.call("HDEL", key, "request")
    redis.call("HSET", root .. "unfinished", "cancel " .. dag, 0)
  end
end

-- Writes the changes of the counters of a DAG and updates its status: failed while a task is dead,
-- ended when none is open and none is dead.
local function write_tally(root, now, dag, by, events)
  local key = root .. "dag:" .. dag
  for counter, number in pairs(by) do
    -- A change of nothing would be sent as "-0", which Redis does not accept as a number.
    if number ~= 0 then
      redis.call("HINCRBY", key, counter, number)
    end
  end
  local row = redis.call("HMGET", key, "status", "open", "dead", "closing")
  local status, open, dead, closing = row[1], tonumber(row[2]), tonumber(row[3]), row[4]
  if not status or status == "writing" then
    return
  elseif dead > 0 then
    fail_dag(root, dag, status, events, (by.dead or 0) > 0)
  elseif open == 0 then
    return complete_dag(root, now, dag, events)
  elseif status == "failed" and not closing then
    redis.call("HSET", key, "status", "running")
  end
  if (by.cancelled or 0) > 0 and not closing then
    -- The critical path may have changed.
    redis.call("HINCRBY", root .. "unfinished", "rank " .. dag, 1)
  end
end

-- Writes what status.tally has noted.
function status.write_tallies(root, now, how)
  for dag, by in pairs(how.dags or {}) do
    write_tally(root, now, dag, by, how.events)
  end
end

-- A dead task of a DAG is retried: the DAG continues, even where it was being cancelled, and its
-- critical path changes. No more dependents of the task are cancelled.
function status.revive(root, now, task, flags, events)
  local dag, how = tasks.dag_of(flags), { events = events }
  if dag then
    redis.call("HDEL", root .. "dag:" .. dag, "closing", "why")
    redis.call("HINCRBY", root .. "unfinished", "rank " .. dag, 1)
    redis.call("HDEL", root .. "cancelling", "children " .. task)
    status.tally(how, flags, "dead", "open")
    status.write_tallies(root, now, how)
  end
end

-- Lets the keys of an ended DAG expire after `ttl` ms; its tasks have their own keys.
function status.expire(root, dag, ttl)
  for _, name in ipairs({ "dag:", "members:", "follow:" }) do
    redis.call("PEXPIRE", root .. name .. dag, ttl)
  end
end

-- Returns the DAG of a task that another task joins. A task without a DAG counts as a DAG of one,
-- which is not stored until a second task joins: it is stored now, under the ULID of the task.
function status.adopt(root, now, id, row)
  local dag = tasks.dag_of(row.flags)
  if dag then
    return dag
  end
  local ended = row.state == "COMPLETED" or row.state == "CANCELLED"
  local is_leased = row.state == "CLAIMED" or row.state == "RUNNING" or row.state == "VALIDATING"
  local dead = row.state == "DEAD_LETTERED"
  redis.call("HSET", root .. "dag:" .. id, "status",
    dead and "failed" or (is_leased or ended) and "running" or "pending",
    "created", string.format("%.0f", now), "on_failure", "hold", "total", 1, "edges", 0,
    "open", (ended or dead) and 0 or 1, "dead", dead and 1 or 0,
    "cancelled", row.state == "CANCELLED" and 1 or 0)
  -- The cost of the task counts for its DAG, and its reservation is refunded to that, too.
  local spent = redis.call("HGET", root .. "notes:" .. id, "micro_usd")
  if spent then
    redis.call("HSET", root .. "dag:" .. id, "spent", spent)
  end
  local left = string.match(redis.call("HGET", root .. "task:" .. id, "reserved") or "", "^%d+")
  if is_leased and left then
    redis.call("HSET", root .. "dag:" .. id, "reserved", left)
  end
  redis.call("ZADD", root .. "dags", now, id)
  redis.call("RPUSH", root .. "members:" .. id, id)
  tasks.add_flag(root, id, id)
  return id
end

-- Adds a new task to the DAG of its first dependency, if that is open and has room, and returns
-- whether it did. An endless chain must not make an endless DAG: beyond the maximum, a task begins
-- a DAG of its own, and the edge between them is an edge like any other. The same holds where tasks
-- of the DAG may not add any: one of them may be the caller.
function status.join(root, now, id, dependencies, room)
  local dag = status.adopt(root, now, dependencies[1], tasks.read(root, dependencies[1]))
  local key = root .. "dag:" .. dag
  local row = redis.call("HMGET", key, "total", "finished", "closing", "spawn")
  if row[2] or row[3] or row[4] == "none" or not row[1] or tonumber(row[1]) >= room then
    return false
  end
  redis.call("HINCRBY", key, "total", 1)
  redis.call("HINCRBY", key, "open", 1)
  redis.call("HINCRBY", key, "edges", #dependencies)
  redis.call("RPUSH", root .. "members:" .. dag, id)
  redis.call("HINCRBY", root .. "unfinished", "rank " .. dag, 1)
  tasks.add_flag(root, id, dag)
  return true
end

-- Counts new tasks and edges of a DAG. Of those that wait inside, the DAG stores the number in each
-- lane: until its commit they count as CREATED.
function status.count_new(root, dag, members, waiting, edges)
  local key = root .. "dag:" .. dag
  redis.call("HINCRBY", key, "edges", edges)
  if #members == 0 then
    return
  end
  redis.call("RPUSH", root .. "members:" .. dag, unpack(members))
  redis.call("HINCRBY", key, "total", #members)
  redis.call("HINCRBY", key, "open", #members)
  for lane, number in pairs(waiting) do
    redis.call("HINCRBY", key, "waiting:" .. lane, number)
  end
end

-- Counts the tasks of a DAG that wait inside as PENDING: they are visible from now on.
function status.show_waiting(key, how)
  for name, number in pairs(values.fields_of(key)) do
    local lane = string.match(name, "^waiting:(%-?%d+)$")
    if lane then
      lanes.tally(how, lane, "CREATED", -number)
      lanes.tally(how, lane, "PENDING", tonumber(number))
      redis.call("HDEL", key, name)
    end
  end
end

-- Makes a CREATED task of a committed DAG READY, or PENDING where it waits for something. `how`
-- collects the changes of the indexes, see indexes.enter.
function status.commit_task(root, now, id, how)
  local key = root .. "task:" .. id
  local row = redis.call("HMGET", key, "state", "lane", "score", "due", "lost", "fired",
    "namesake", "flags")
  local lane = row[2]
  if row[1] ~= "CREATED" then
    return
  end
  lanes.tally(how, lane, "CREATED", -1)
  if row[6] then
    edges.wait_for_none(root, id)
  end
  if row[6] or row[7] then
    redis.call("HDEL", key, "fired", "namesake")
  end
  if redis.call("EXISTS", root .. "waits:" .. id) == 0 then
    indexes.make_ready(root, id, lane, row[3], how, row[8])
  else
    redis.call("HSET", key, "state", "PENDING")
    lanes.tally(how, lane, "PENDING", 1)
    how.blocked[#how.blocked + 1], how.blocked[#how.blocked + 2] = now, id
    if row[4] then
      redis.call("ZADD", root .. "delayed", row[4], id)
    end
    if row[5] then
      redis.call("HSET", root .. "cancelling", id, row[5])
      redis.call("HDEL", key, "lost")
    end
  end
end

-- The next `limit` members of a DAG for a step that `unfinished` names, and whether more follow;
-- nil where it is not named. Writes the progress of the step at once. A commit has a list of its
-- own, which is deleted with the last page.
function status.next_page(root, dag, step, limit)
  local unfinished, name = root .. "unfinished", step .. " " .. dag
  local at = tonumber(redis.call("HGET", unfinished, name))
  if not at then
    return nil, false
  end
  local list = root .. (step == "commit" and "fresh:" or "members:") .. dag
  local page = redis.call("LRANGE", list, at, at + limit - 1)
  local more = #page == limit
  if more then
    redis.call("HSET", unfinished, name, at + limit)
  else
    redis.call("HDEL", unfinished, name)
    if step == "commit" then
      redis.call("DEL", list)
    end
  end
  return page, more
end
