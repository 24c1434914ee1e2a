-- Events, and the outbox entries that the archive reads.

-- Appends one event to the capped stream of what happened; whom it is about stands under the first
-- word of its name. What some sink wants to be told is a notice as well, and stays until it was.
function event.emit(root, cap, name, subject, detail)
  local kind = string.match(name, "^%a+")
  local id = redis.call("XADD", root .. "events", "MAXLEN", "~", cap, "*",
    "event", name, kind, subject, "detail", detail)
  if redis.call("SISMEMBER", root .. "noticed", name) == 1 then
    redis.call("XADD", root .. "notices", "*",
      "event", name, kind, subject, "detail", detail, "id", id)
  end
end

-- Tells of the tasks that became READY because what they waited for is there: one event a call.
function event.emit_ready(root, cap, ids)
  if #ids > 0 then
    event.emit(root, cap, "task.ready", table.concat(ids, " "), #ids)
  end
end

-- Says that a lease was taken from a worker, and counts it in `lost`, which keeps their order.
function event.note_lost(root, id, worker, lost, events)
  if not lost[worker] then
    lost[#lost + 1] = worker
  end
  lost[worker] = (lost[worker] or 0) + 1
  event.emit(root, events, "task.reaped", id, worker)
end

-- Of the workers that leases were taken from, says which are lost: nothing was heard of them
-- `since`. One that was is only slow, or there again.
function event.emit_lost(root, since, lost, events)
  for _, worker in ipairs(lost) do
    local seen = redis.call("ZSCORE", root .. "workers", worker)
    if not seen or tonumber(seen) <= since then
      event.emit(root, events, "worker.lost", worker, lost[worker])
    end
  end
end

-- One outbox entry for all tasks that ended in this call: id -> "<life> <state> [snapshot]", or for
-- a cost that was told late: id -> "<life> COST <facts>".
-- `ended` is that flat list; without an archive nothing is written, see has_archive.
function event.send_to_outbox(root, archive, ended)
  if not archive or #ended == 0 then
    return
  end
  redis.call("XADD", root .. "outbox", "*", unpack(ended))
  redis.call("HINCRBY", root .. "stats", "outbox", #ended / 2)
end

-- All that the archive needs of a task that may live again: its hash and definition, as JSON.
function event.snapshot(root, id)
  local fields = values.fields_of(root .. "task:" .. id)
  return cjson.encode({ task = fields, def = definition.read(root, id, fields),
    failures = redis.call("LRANGE", root .. "failures:" .. id, 0, -1),
    notes = values.fields_of(root .. "notes:" .. id),
    logs = redis.call("LRANGE", root .. "logs:" .. id, 0, -1),
    parents = redis.call("LRANGE", root .. "parents:" .. id, 0, -1),
    steps = redis.call("HKEYS", root .. "steps:" .. id) })
end
