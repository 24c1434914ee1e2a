-- Cancels tasks and cascades to those that depend on them.

-- What every ending that is not a completion has in common, after the indexes are left: the
-- hash, the key given up, who waited, the keys' expiry, which for a task of a DAG waits for the
-- end of all. `row` is { state, lane, flags, more }.
function cancel.finish(root, id, row, state, ttl, fields)
  redis.call("HSET", root .. "task:" .. id, "state", state, unpack(fields))
  redis.call("ZREM", root .. "deadlines", id)
  identity.release(root, id, row.more)
  lanes.count(root, row.lane, row.state, -1)
  lanes.count(root, row.lane, state, 1)
  mailbox.notify_watchers(root, id, row.flags)
  if ttl and not tasks.dag_of(row.flags) then
    tasks.expire(root, id, ttl, row.flags, row.more)
  end
end

-- Cancels a task if it has not ended, for a `why` and with a `rule` for those who wait for it and
-- those for whom it waits, unless the `whole` DAG is given up.
-- Returns the word for it; what ended is added to `how.ended`.
function cancel.one(root, now, id, why, rule, how)
  local row = tasks.read(root, id)
  redis.call("HDEL", root .. "cancelling", id)
  if not row.state or not tasks.is_visible(root, row) then
    -- What nobody sees yet cannot be named; a cascade that comes to it goes on at its commit.
    if row.state and how.cascading then
      redis.call("HSET", root .. "task:" .. id, "lost", rule .. " " .. why)
    end
    return "GONE"
  elseif row.state == "COMPLETED" or row.state == "DEAD_LETTERED" or row.state == "CANCELLED" then
    local again = redis.call("HGET", root .. "task:" .. id, "settled") == "cancel " .. how.request
    return again and "OK" or "STATE:" .. row.state
  end
  if rule == "cascade" and not how.whole then
    cancel.awaited(root, id, row)
  end
  how.ended[#how.ended + 1] = id
  how.ended[#how.ended + 1] = cancel.task(root, now, id, row, why, how)
  cancel.dependents(root, id, row.flags, rule, "cancelled")
  return "OK"
end

-- Ends a live task as CANCELLED and returns its outbox value. `how.request` names the call, if
-- the task was asked for by name.
function cancel.task(root, now, id, row, reason, how)
  lease.notify_holder(root, id, row)
  indexes.leave(root, id, row.state, row.lane, row.entry, row.token)
  status.tally(how, row.flags, "open", "cancelled")
  cancel.finish(root, id, row, "CANCELLED", not how.archive and how.ttl,
    { "finished", now, "why", reason,
      "settled", how.request and "cancel " .. how.request or "cancel" })
  event.emit(root, how.events, "task.cancelled", id, reason)
  return (row.more.life or 1) .. " CANCELLED"
end

-- What it means for those who wait for a task that it will never complete: by the rule they are
-- cancelled too, or told that it is met, by the next call of `cancel`.
function cancel.dependents(root, id, flags, rule, word)
  if tasks.has_flag(flags, "d") or tasks.has_flag(flags, "o") then
    redis.call("HSET", root .. "cancelling", "children " .. id, rule .. " " .. word)
  end
  unblock.later(root, id, flags)
end

-- Goes on with those who wait for a task that will never complete, as many as `how` has left: by
-- the rule cancelled, or unblocked. One that waits for what it spawned goes on in any case: its
-- code is told. Where the task lives again, all wait on.
function cancel.cascade(root, now, id, rule, word, how)
  local dependents, why = root .. "dependents:" .. id, "Parent task_" .. id .. " " .. word
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "down")
  local over = not row[1] or row[1] == "CANCELLED" or row[1] == "DEAD_LETTERED"
  if over and row[2] then
    redis.call("ZADD", dependents, 0, row[2])
    redis.call("HDEL", root .. "task:" .. id, "down")
  end
  local children = over and redis.call("ZPOPMIN", dependents, how.left) or {}
  for i = 1, #children, 2 do
    local child = children[i]
    if rule == "unblock" or redis.call("HEXISTS", root .. "task:" .. child, "suspended") == 1 then
      unblock.one(root, child, id, how)
    elseif edges.waits_for(root, child, id) then
      cancel.one(root, now, child, why, rule, how)
    else
      redis.call("SREM", root .. "gather:" .. child, id)
    end
  end
  how.left = how.left - #children / 2 - 1
  if not over or redis.call("EXISTS", dependents) == 0 then
    redis.call("HDEL", root .. "cancelling", "children " .. id)
  end
end

-- A task that waits for others which it spawned is given up: so are they, by the next call of
-- `cancel`.
function cancel.awaited(root, id, row)
  local key, list = root .. "task:" .. id, {}
  if row.state ~= "PENDING" or not tasks.has_flag(row.flags, "s")
    or redis.call("HDEL", key, "suspended") == 0 then
    return
  end
  for _, child in ipairs(redis.call("SMEMBERS", root .. "waits:" .. id)) do
    if child ~= "@time" then
      list[#list + 1] = { child, "Parent task_" .. id .. " cancelled", "cascade" }
    end
  end
  cancel.later(root, list)
end

-- Leaves a `list` of { id, reason, rule } to the next call of `cancel`: each with the rule of its
-- own cascade, since whoever calls next may have another.
function cancel.later(root, list)
  local flat = {}
  for at, one in ipairs(list) do
    flat[#flat + 1], flat[#flat + 2] = one[1], one[3] .. " " .. one[2]
    if #flat == 1000 or at == #list then
      redis.call("HSET", root .. "cancelling", unpack(flat))
      flat = {}
    end
  end
end
