-- Spawns tasks from a running one, and suspends that until they have ended.

-- Whether a task may spawn tasks of these kinds of lanes, by the rule of its DAG: "own_dag" allows
-- any, "same_agent" those of its own agent, "none" nothing.
local function may_spawn(root, rule, lane, kinds)
  if rule ~= "same_agent" then
    return rule == "own_dag"
  end
  local lanes, agent = redis.call("HGETALL", root .. "lanes"), nil
  for i = 1, #lanes, 2 do
    if lanes[i + 1] == lane and string.sub(lanes[i], 1, 1) == "{" then
      agent = cjson.decode(lanes[i]).agent
    end
  end
  for _, kind in ipairs(kinds) do
    if cjson.decode(kind.signature).agent ~= agent then
      return false
    end
  end
  return true
end

-- Why the DAG of a spawning task refuses `fresh` tasks of these kinds of lanes: nil where it
-- accepts them. A task without a DAG counts as a DAG of one, under the queue's own rule.
local function refused_by_dag(root, request, fresh, kinds)
  local dag = root .. "dag:" .. (tasks.dag_of(request.row[5]) or "")
  local facts = redis.call("HMGET", dag, "spawn", "total", "closing")
  local rule = facts[1] or request.rule
  local forbidden = request.who ~= "" and calls.role_refused(root, request.who)
  if forbidden then
    return { "FORBIDDEN", forbidden }
  end
  if not may_spawn(root, rule, request.row[3], kinds) then
    return { "RULE", rule }
  elseif facts[3] then
    return { "CLOSED" }
  elseif (facts[2] or 1) + fresh > request.room then
    return { "FULL" }
  end
  return nil
end

-- Reads the options of a task to be spawned, and returns why it is refused, if it is: a dependency
-- does not exist, its external id is taken, or a dependency waits for the parent, which is
-- to wait for it. A task that exists already (without `special`) may wait for the parent as long as
-- that does not wait for it; a running one may be about to wait.
local function spawn_refused(root, new, request)
  if not new.special then
    local ended = not new.state or new.state == "COMPLETED" or new.state == "CANCELLED"
      or new.state == "GONE"
    local cycle = request.wait ~= "" and not ended
      and edges.reaches(root, { new.id }, request.id, request.walk)
    return cycle and { cycle, new.key } or nil
  end
  local text, call_text = string.match(new.special, "^([^\n]*)\n(.*)$")
  new.more, new.options = values.decoded(text), values.decoded(call_text)
  new.text, new.flags = text ~= "" and text or nil, text ~= "" and "m" or ""
  local open, lost = edges.unmet(root, new.options.outside or {}, new.more.trigger)
  local ext = new.more.ext
  local ext_holder = ext and (request.names[ext] or special.holder_of_ext(root, ext))
  if not open then
    return { "PARENT", new.key, lost }
  elseif ext_holder then
    return { "EXISTS", new.key, ext_holder }
  end
  if ext then
    request.names[ext] = new.id
  end
  new.outside = open
  local cycle = request.wait ~= "" and edges.reaches(root, open, request.id, request.walk)
  return cycle and { cycle, new.key } or nil
end

-- Checks what a spawn adds: `request.rows`. A row whose key is known, or occurs in an earlier row,
-- gets the id of that task and loses its `special`. Returns the kinds of lanes, and the DAG, which
-- is created where the parent had none; or as third result the refusal, and then nothing is
-- written.
local function spawn_checked(root, now, request)
  local kinds, fresh, refused, here = lanes.parse_kinds(request.lanes, now), 0, nil, {}
  for _, new in ipairs(request.rows) do
    local known = redis.call("HGET", root .. "spawned:" .. request.id, new.key)
    if known or here[new.key] then
      new.id, new.special = known or here[new.key], nil
      new.state = known and (redis.call("HGET", root .. "task:" .. known, "state") or "GONE")
    else
      fresh, here[new.key] = fresh + 1, new.id
    end
    -- A suspended parent adds nothing: the call is a repetition and gets the same reply.
    if request.suspended then
      refused = fresh > 0 and { "LOST" }
    else
      refused = spawn_refused(root, new, request)
    end
    if refused then
      return nil, nil, refused
    end
  end
  if fresh > 0 then
    refused = refused_by_dag(root, request, fresh, kinds)
    for _, kind in ipairs(refused and {} or kinds) do
      refused = not lanes.number_of(root, kind, request.max_lanes, now) and { "LANES" } or refused
    end
  end
  if refused then
    return nil, nil, refused
  end
  return kinds, status.adopt(root, now, request.id, tasks.read(root, request.id))
end

-- Writes the new tasks of a spawn into a committed DAG, and their keys for the parent.
local function spawn_tasks(root, now, dag, request, kinds, how)
  local fresh, places, spawned = {}, {}, root .. "spawned:" .. request.id
  for _, new in ipairs(request.rows) do
    if new.special then
      local place = places[new.place] or lanes.parse_place(kinds, new.place)
      places[new.place], new.place, new.above = place, place, ""
      fresh[#fresh + 1] = new
      redis.call("HSET", spawned, new.key, new.id)
    end
  end
  if #fresh == 0 then
    return
  end
  create.many(root, now, dag, fresh)
  for _, new in ipairs(fresh) do
    status.commit_task(root, now, new.id, how)
  end
  tasks.add_flag(root, request.id, "s")
  redis.call("HINCRBY", root .. "stats", "submitted", #fresh)
  redis.call("HINCRBY", root .. "unfinished", "rank " .. dag, 1)
end

-- Deletes the note of what a task was to wait for and never did. Removes the task from the
-- dependents of those, triggered or not: it may wait for them with another trigger.
local function drop_plan(root, id)
  edges.remove_from_all(root, id, "gather", 1000)
  redis.call("DEL", root .. "gather:" .. id)
end

-- Notes a part of what a running task is to wait for; what ends from now on is removed from the
-- note. `request.gather` is { name, part, keep_ms }, and the name ends with the token of the
-- attempt; a note under another name was never waited for. With the last part, returns whether
-- there is anything to wait for: it is in `waits` then.
local function plan_wait(root, request, open, trigger)
  local name, part, keep_ms = unpack(request.gather)
  local key = root .. "gather:" .. request.id
  if part == "first" and redis.call("SADD", key, name) == 1 then
    drop_plan(root, request.id)
  end
  redis.call("SADD", key, name, unpack(open))
  redis.call("PEXPIRE", key, keep_ms)
  edges.register(root, request.id, open, trigger)
  if part ~= "last" or redis.call("SCARD", key) == 1 then
    return false
  end
  redis.call("SREM", key, name)
  redis.call("PERSIST", key)
  redis.call("RENAME", key, root .. "waits:" .. request.id)
  return true
end

-- Suspends a RUNNING task until tasks that it spawned have ended: its lease ends, and no attempt is
-- spent. `row` is state, token, lane, entry, flags.
local function suspend_task(root, now, id, row, children, trigger)
  local key, lane, entry = root .. "task:" .. id, row[3], row[4]
  late.expect_report(root, id, row[2])
  indexes.delete_entry(root, entry)
  redis.call("ZREM", root .. "handoffs", tasks.delivery_member(id, row[2]))
  -- The id of the entry is the time of creation until the task has another entry.
  redis.call("HSETNX", key, "created", string.match(entry, "^%d+"))
  redis.call("HSET", key, "state", "PENDING", "suspended", 1, "settled", "suspend " .. row[2])
  redis.call("HDEL", key, "entry")
  indexes.block(root, id, children, nil, trigger)
  indexes.add_pending(root, now, id)
  lanes.count(root, lane, row[1], -1)
  wake.left_running(root, id, lane)
  lanes.count(root, lane, "PENDING", 1)
end

-- Makes a spawning task wait for those that are `open`, or notes that it will, where this is one
-- part of a wait of several calls. Returns whether it waits.
local function spawn_wait(root, now, request, open, trigger)
  local waits = #open > 0
  if request.gather then
    waits, open = plan_wait(root, request, open, trigger), {}
  elseif waits then
    drop_plan(root, request.id)
  end
  if waits then
    suspend_task(root, now, request.id, request.row, open, trigger)
  end
  return waits
end

-- The reply of lua/dag/spawn.lua to a call that is allowed: checks all, writes all, and suspends
-- the parent where it is to wait and something has not ended yet.
function spawn.all(root, now, request)
  local kinds, dag, refused = spawn_checked(root, now, request)
  if refused then
    return refused
  end
  local how, reply, open = indexes.collector(#request.rows), { "OK", 0, "GOING" }, {}
  local lenient = request.wait == "done"
    or redis.call("HGET", root .. "dag:" .. dag, "on_failure") == "continue"
  spawn_tasks(root, now, dag, request, kinds, how)
  indexes.enter(root, how)
  for _, new in ipairs(request.rows) do
    local state = new.state or redis.call("HGET", root .. "task:" .. new.id, "state")
    reply[#reply + 1], reply[#reply + 2] = new.id, state
    local ended = state == "COMPLETED" or state == "CANCELLED" or state == "GONE"
      or (state == "DEAD_LETTERED" and lenient)
    open[#open + 1] = not ended and new.id or nil
  end
  local suspended, trigger = request.suspended, lenient and "all_done" or nil
  if request.wait ~= "" and not suspended then
    suspended = spawn_wait(root, now, request, open, trigger)
  end
  reply[3] = suspended and "SUSPENDED" or "GOING"
  how.freed = suspended and not request.suspended
  reply[2] = answer.freed(root, now, how, request.most) and 1 or 0
  return reply
end
