-- The idempotency key: which task holds it, and what a second submit does.

-- What happens to the task that holds the idempotency key of a new one: "keep", "replace" or
-- "debounce". It is debounced only where the new task differs in payload and priority alone: the
-- same lane, tenant, tags, deadline and so on, and no dependencies. Otherwise it is replaced, since
-- its id would be in the wrong indexes.
local function holder_rule(root, holder, row, new, options, dependencies)
  if not tasks.is_waiting(row.state) then
    return "keep"
  elseif options.if_exists ~= "debounce" then
    return options.if_exists or "keep"
  end
  local same = #dependencies == 0
    and redis.call("HGET", root .. "lanes", new.kind.signature) == row.lane
    and redis.call("HGET", root .. "task:" .. holder, "more") == new.more
    and (redis.call("HGET", root .. "task:" .. holder, "key") or nil) == new.tenant
  return same and "debounce" or "replace"
end

-- Gives the waiting holder of an idempotency key the definition and priority of a new task, and
-- restarts its delay. Field `debounced` has the ids of the last tasks that did so: a repeated
-- submit changes nothing.
local function debounce_holder(root, now, holder, row, new, due)
  local key = root .. "task:" .. holder
  local names = redis.call("HGET", key, "debounced") or ""
  if string.find(names, new.id, 1, true) then
    return
  end
  redis.call("HSET", key, "score", new.score,
    "debounced", string.sub(new.id .. " " .. names, 1, 16 * (#new.id + 1)))
  redis.call("HDEL", key, "priority")
  if new.kind.price ~= "" then
    -- The cost class is the same, since the lane is.
    redis.call("HSET", key, "price", new.kind.price)
  end
  definition.write(root, holder, new.def)
  if due then
    indexes.delay(root, now, holder, row, due)
  elseif row.state == "READY" then
    -- A task that is held with its DAG is not in its lane.
    lanes.rescore(root, row.lane, new.score, holder)
  end
end

-- Resolves a new task whose idempotency key another task holds. Returns the reply to the new task,
-- or nil where it replaces the holder.
function identity.resolve(root, now, holder, row, new, options, dependencies, due)
  local rule = holder_rule(root, holder, row, new, options, dependencies)
  if rule == "debounce" then
    debounce_holder(root, now, holder, row, new, due)
  end
  if rule ~= "replace" then
    return "EXISTS"
  end
  return values.contains(dependencies, holder) and "PARENT" or nil
end

-- Cancels the waiting task that holds the key of a new one. Its dependents can never run: the
-- promoter cancels them. `new.archive` is whether the queue has an archive, read once per call.
function identity.replace(root, now, holder, row, new)
  local how = cjson.decode(new.how)
  how.archive = new.archive or how.archive == "1"
  cancel.awaited(root, holder, row)
  local value = cancel.task(root, now, holder, row, "replaced by " .. new.id, how)
  cancel.dependents(root, holder, row.flags, "cascade", "cancelled")
  status.write_tallies(root, now, how)
  event.send_to_outbox(root, how.archive, { holder, value })
end

-- Releases the idempotency key of a task if the task still holds it.
function identity.release(root, id, more)
  if more.idem and redis.call("GET", root .. "idem:" .. more.idem) == id then
    redis.call("DEL", root .. "idem:" .. more.idem)
  end
end

-- Releases the idempotency key of a task that holds it only until it starts.
function identity.release_at_start(root, id)
  local more = values.decoded(redis.call("HGET", root .. "task:" .. id, "more"))
  if more.unique == "until_start" then
    identity.release(root, id, more)
  end
end
