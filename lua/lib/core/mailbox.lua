-- Mailboxes: lists that a worker or a waiting client reads with BLPOP.

-- Appends a line to a mailbox. A mailbox expires two minutes after its last line, which is longer
-- than any wait.
function mailbox.put(root, box, line)
  local key = root .. "mail:" .. box
  redis.call("RPUSH", key, line)
  redis.call("PEXPIRE", key, 120000)
end

-- Registers a mailbox that is notified when a task ends. Returns the state of the task, nil where
-- it does not exist.
function mailbox.watch_task(root, id, box, keep_ms)
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "flags")
  local state = tasks.is_visible(root, { state = row[1], flags = row[2] }) and row[1]
  if state and state ~= "COMPLETED" and state ~= "DEAD_LETTERED" and state ~= "CANCELLED" then
    redis.call("SADD", root .. "watchers:" .. id, box)
    redis.call("PEXPIRE", root .. "watchers:" .. id, keep_ms)
    tasks.add_flag(root, id, "w")
  end
  return state
end

-- Registers a mailbox that is notified when a DAG ends or fails. Returns the status of the DAG, nil
-- where it does not exist.
function mailbox.watch_dag(root, dag, box, keep_ms)
  local row = redis.call("HMGET", root .. "dag:" .. dag, "status", "finished")
  if not row[1] or row[1] == "writing" then
    return nil
  end
  if not row[2] and row[1] ~= "failed" then
    redis.call("SADD", root .. "watchers:dag_" .. dag, box)
    redis.call("PEXPIRE", root .. "watchers:dag_" .. dag, keep_ms)
  end
  return row[1]
end

-- Notifies the mailboxes that are registered for the end of a task.
function mailbox.notify_watchers(root, id, flags)
  if not tasks.has_flag(flags, "w") then
    return
  end
  for _, box in ipairs(redis.call("SMEMBERS", root .. "watchers:" .. id)) do
    mailbox.put(root, box, "ended " .. id)
  end
  redis.call("DEL", root .. "watchers:" .. id)
end

-- Notifies the mailboxes that are registered for the end of a DAG.
function mailbox.notify_dag(root, dag)
  local watchers = root .. "watchers:dag_" .. dag
  for _, box in ipairs(redis.call("SMEMBERS", watchers)) do
    mailbox.put(root, box, "ended dag_" .. dag)
  end
  redis.call("DEL", watchers)
end
