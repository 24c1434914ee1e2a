-- Failed attempts: record, retry or dead letter.

-- Appends the record of an attempt to the failures of a task, of which the newest `keep` stay. Adds
-- how long it took, and what the task has reported since the record before: cost, tokens, model.
local function record_failure(root, now, id, flags, record, keep)
  local holder = redis.call("HGET", root .. "task:" .. id, "holder")
  local claimed, started = tasks.split_holder(holder or "")
  local since = tonumber(started ~= "0" and started or claimed) or now
  local more = string.format(',"duration_sec":%.3f', math.max(0, now - since) / 1000)
  if tasks.has_flag(flags, "n") then
    local notes, reported = root .. "notes:" .. id, {}
    for i, value in ipairs(redis.call("HMGET", notes, "micro_usd", "tokens_in", "tokens_out",
      "recorded_usd", "recorded_tokens")) do
      reported[i] = tonumber(value or 0) or 0
    end
    local tokens = reported[2] + reported[3]
    more = more .. string.format(',"cost_usd":%.6f,"tokens":%.0f',
      (reported[1] - reported[4]) / 1000000, tokens - reported[5])
    redis.call("HSET", notes, "recorded_usd", reported[1], "recorded_tokens", tokens)
    local model = redis.call("HGET", notes, "model")
    if model then
      -- The model that the cost is for replaces the one that the worker expected. The next attempt
      -- reports its own.
      record = string.gsub(record, ',"model":"[^"]*"', "")
      more = more .. ',"model":' .. cjson.encode(model)
      redis.call("HDEL", notes, "model")
    end
  end
  redis.call("RPUSH", root .. "failures:" .. id, string.sub(record, 1, -2) .. more .. "}")
  redis.call("LTRIM", root .. "failures:" .. id, -keep, -1)
  tasks.add_flag(root, id, "f")
end

-- Ends a held attempt as failed: RETRYING after `delay` ms, or dead where `delay` is "". `verdict`
-- is { delay, attempts, reclaims, reason, record, failed_by, poison, settled }.
function fail.attempt(root, now, id, row, verdict, how)
  local fields = { "attempts", verdict.attempts, "reclaims", verdict.reclaims,
    "reason", verdict.reason, "settled", verdict.settled }
  values.add_field(fields, "failed_by", verdict.failed_by ~= "" and verdict.failed_by)
  if verdict.record ~= "" then
    record_failure(root, now, id, row[5], verdict.record, how.keep)
  end
  if verdict.delay ~= "" then
    lease.retry_later(root, id, row, now + verdict.delay, fields)
    event.emit(root, how.events, "task.retrying", id,
      table.concat({ verdict.reason, verdict.attempts, verdict.delay }, " "))
    return "RETRYING"
  end
  if verdict.poison ~= "" then
    values.add_field(fields, "poison", verdict.poison)
    event.emit(root, how.events, "task.poisoned", id, verdict.failed_by)
  end
  local full = tasks.read(root, id)
  indexes.leave(root, id, full.state, full.lane, full.entry, full.token)
  how.reason = verdict.reason
  how.ended[#how.ended + 1] = id
  how.ended[#how.ended + 1] = fail.bury(root, now, id, full, fields, how)
  return "DEAD_LETTERED"
end

-- Makes a task DEAD_LETTERED that has left its indexes; it stays until an operator decides about
-- it. Its dependents continue to wait, unless its DAG continues without it. Returns its outbox
-- value, with a snapshot, since the task may be retried before it is archived.
function fail.bury(root, now, id, row, fields, how)
  fields[#fields + 1] = "finished"
  fields[#fields + 1] = now
  cancel.finish(root, id, row, "DEAD_LETTERED", nil, fields)
  redis.call("ZADD", root .. "dead", now, id)
  event.emit(root, how.events, "task.dead_lettered", id, how.reason)
  status.tally(how, row.flags, "open", "dead")
  local dag = tasks.dag_of(row.flags)
  if dag and redis.call("HGET", root .. "dag:" .. dag, "on_failure") == "continue" then
    cancel.dependents(root, id, row.flags, "cascade", "dead-lettered")
  else
    unblock.later(root, id, row.flags)
  end
  local copy = how.archive and event.snapshot(root, id) or ""
  return (row.more.life or 1) .. " DEAD_LETTERED " .. copy
end
