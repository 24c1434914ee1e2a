-- The idempotency key: who holds it and what a second submission does.

-- What becomes of the task that holds a new one's key: "keep", "replace" or "debounce". Debounced
-- is what differs in payload and priority only: the same lane and key, the same tags, deadline and
-- so on, and no parents. A task of another kind replaces it, since under its id it would be in the
-- wrong place.
local function holder_rule(root, holder, row, new, ask, parents)
  if not tasks.is_waiting(row.state) then
    return "keep"
  elseif ask.if_exists ~= "debounce" then
    return ask.if_exists or "keep"
  end
  local same = #parents == 0
    and redis.call("HGET", root .. "lanes", new.kind.signature) == row.lane
    and redis.call("HGET", root .. "task:" .. holder, "more") == new.more
    and (redis.call("HGET", root .. "task:" .. holder, "key") or nil) == new.key
  return same and "debounce" or "replace"
end

-- Gives the waiting task that holds a new one's key its definition and priority, and lets it wait
-- anew. `debounced` names the last ones that did so: sent again, one changes nothing.
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
    -- Of the same class: its lane is the same.
    redis.call("HSET", key, "price", new.kind.price)
  end
  definition.write(root, holder, new.def)
  if due then
    indexes.delay(root, now, holder, row, due)
  elseif row.state == "READY" then
    -- Not where it is held back with its DAG.
    lanes.rescore(root, row.lane, new.score, holder)
  end
end

-- A new task's key belongs to a task: what the new one is answered, nil where it replaces that one.
function identity.resolve(root, now, holder, row, new, ask, parents, due)
  local rule = holder_rule(root, holder, row, new, ask, parents)
  if rule == "debounce" then
    debounce_holder(root, now, holder, row, new, due)
  end
  if rule ~= "replace" then
    return "EXISTS"
  end
  return values.contains(parents, holder) and "PARENT" or nil
end

-- Cancels the waiting task that holds the key of a new one. What waits for it can never run: the
-- promoter cancels it. `new.archive` is whether the queue has one, known for the whole call.
function identity.replace(root, now, holder, row, new)
  local how = cjson.decode(new.how)
  how.archive = new.archive or how.archive == "1"
  cancel.awaited(root, holder, row)
  local value = cancel.task(root, now, holder, row, "replaced by " .. new.id, how)
  cancel.dependents(root, holder, row.flags, "cascade", "cancelled")
  status.write_tallies(root, now, how)
  event.send_to_outbox(root, how.archive, { holder, value })
end

-- Gives up the task's idempotency key if it is still this task's.
function identity.release(root, id, more)
  if more.idem and redis.call("GET", root .. "idem:" .. more.idem) == id then
    redis.call("DEL", root .. "idem:" .. more.idem)
  end
end

-- Gives up the idempotency key of a task that keeps it until it starts only.
function identity.release_at_start(root, id)
  local more = values.decoded(redis.call("HGET", root .. "task:" .. id, "more"))
  if more.unique == "until_start" then
    identity.release(root, id, more)
  end
end
