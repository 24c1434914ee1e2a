-- Cancels tasks and cascades to those that depend on them.

-- Writes the end of a task that did not complete, after it has left the indexes: its hash, the
-- release of its idempotency key, the notification of its watchers, and the expiry of its keys;
-- those of a task of a DAG do not expire before the whole DAG has ended. `row` is { state, lane,
-- flags, more }.
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

-- Cancels a task if it has not ended, for the reason `why`. `rule` holds for its dependents, and
-- for the tasks that it spawned and waits for, unless the `whole` DAG is cancelled. Returns the
-- reply word; adds what ended to `how.ended`.
function cancel.one(root, now, id, why, rule, how)
  local row = tasks.read(root, id)
  redis.call("HDEL", root .. "cancelling", id)
  if not row.state or not tasks.is_visible(root, row) then
    -- A task cannot be named before its commit; a cascade that reaches it continues at the commit.
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

-- Ends a live task as CANCELLED and returns its outbox value. `how.request` is the name of the
-- call, if that named the task.
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

-- Handles the dependents of a task that will never complete, in the next call of `cancel`: by the
-- rule they are cancelled too, or their dependency counts as met. Triggered ones are left to
-- `unblock`.
function cancel.dependents(root, id, flags, rule, word)
  if tasks.has_flag(flags, "d") or tasks.has_flag(flags, "o") then
    redis.call("HSET", root .. "cancelling", "children " .. id, rule .. " " .. word)
  end
  unblock.later(root, id, flags)
end

-- Continues with the dependents of a task that will never complete, as many as `how.left` allows:
-- by the rule they are cancelled or unblocked. A task that waits for what it spawned is unblocked
-- in any case: its code receives the outcome. Where the task was retried meanwhile, all continue to
-- wait.
function cancel.cascade(root, now, id, rule, word, how)
  local dependents, why = root .. "dependents:" .. id, "Parent task_" .. id .. " " .. word
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "down")
  local over = not row[1] or row[1] == "CANCELLED" or row[1] == "DEAD_LETTERED"
  if over and row[2] then
    redis.call("ZADD", dependents, 0, row[2])
    redis.call("HDEL", root .. "task:" .. id, "down")
  end
  local page = over and redis.call("ZPOPMIN", dependents, how.left) or {}
  for i = 1, #page, 2 do
    local dependent = page[i]
    if rule == "unblock"
      or redis.call("HEXISTS", root .. "task:" .. dependent, "suspended") == 1 then
      unblock.one(root, dependent, id, how)
    elseif edges.waits_for(root, dependent, id) then
      cancel.one(root, now, dependent, why, rule, how)
    else
      redis.call("SREM", root .. "gather:" .. dependent, id)
    end
  end
  how.left = how.left - #page / 2 - 1
  if not over or redis.call("EXISTS", dependents) == 0 then
    redis.call("HDEL", root .. "cancelling", "children " .. id)
  end
end

-- A cancelled task waited for others which it spawned: they are cancelled too, by the next call of
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
-- own cascade, since the next caller may use another.
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
