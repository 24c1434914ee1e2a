-- Events, notices, and the outbox entries that the archive reads.

-- Appends an event to the capped stream of events, with its subject under the first word of its
-- name. An event that some sink wants is also appended to the notices, where it stays until it is
-- delivered.
function event.emit(root, cap, name, subject, detail)
  local kind = string.match(name, "^%a+")
  local id = redis.call("XADD", root .. "events", "MAXLEN", "~", cap, "*",
    "event", name, kind, subject, "detail", detail)
  if redis.call("SISMEMBER", root .. "noticed", name) == 1 then
    redis.call("XADD", root .. "notices", "*",
      "event", name, kind, subject, "detail", detail, "id", id)
  end
end

-- Emits task.ready for the tasks that a call has made READY: one event for all of them.
function event.emit_ready(root, cap, ids)
  if #ids > 0 then
    event.emit(root, cap, "task.ready", table.concat(ids, " "), #ids)
  end
end

-- Emits that a worker lost its lease on a task, and counts it in `lost`: a list of the workers, and
-- the count of each.
function event.note_lost(root, id, worker, lost, events)
  if not lost[worker] then
    lost[#lost + 1] = worker
  end
  lost[worker] = (lost[worker] or 0) + 1
  event.emit(root, events, "task.reaped", id, worker)
end

-- Emits worker.lost for the workers in `lost` that have sent no heartbeat after `since`. One that
-- has is slow, not lost.
function event.emit_lost(root, since, lost, events)
  for _, worker in ipairs(lost) do
    local seen = redis.call("ZSCORE", root .. "workers", worker)
    if not seen or tonumber(seen) <= since then
      event.emit(root, events, "worker.lost", worker, lost[worker])
    end
  end
end

-- Writes one outbox entry for all tasks that ended in this call. `ended` is a flat list: id,
-- "<life> <state> [snapshot]", or id, "<life> COST <facts>" for a cost that was reported late.
-- Without an archive nothing is written, see calls.has_archive.
function event.send_to_outbox(root, archive, ended)
  if not archive or #ended == 0 then
    return
  end
  redis.call("XADD", root .. "outbox", "*", unpack(ended))
  redis.call("HINCRBY", root .. "stats", "outbox", #ended / 2)
end

-- All that the archive needs of a dead task, as JSON: the task may be retried before it is
-- archived.
function event.snapshot(root, id)
  local fields = values.fields_of(root .. "task:" .. id)
  return cjson.encode({ task = fields, def = definition.read(root, id, fields),
    failures = redis.call("LRANGE", root .. "failures:" .. id, 0, -1),
    notes = values.fields_of(root .. "notes:" .. id),
    logs = redis.call("LRANGE", root .. "logs:" .. id, 0, -1),
    parents = redis.call("LRANGE", root .. "parents:" .. id, 0, -1),
    steps = redis.call("HKEYS", root .. "steps:" .. id) })
end
