-- The lease: check, take, start, extend, release.

-- Whether `token` holds the lease of a task now; and its row: state, token, lane, entry, flags, and
-- one more `field` if one is given.
function lease.held(root, id, token, field)
  local key = root .. "task:" .. id
  local row = field and redis.call("HMGET", key, "state", "token", "lane", "entry", "flags", field)
    or redis.call("HMGET", key, "state", "token", "lane", "entry", "flags")
  local state = row[1]
  local is_leased = state == "RUNNING" or state == "CLAIMED" or state == "VALIDATING"
  return is_leased and row[2] == token, row
end

-- Adds an entry to the pending list of a consumer. Returns the list of the added entries, or an
-- error.
local function take_entry(ready, consumer, entry)
  return redis.pcall("XCLAIM", ready, "workers", consumer, "0", entry, "FORCE", "JUSTID")
end

-- The same for many entries in one command.
local function take_all(ready, consumer, entries)
  local call = { "XCLAIM", ready, "workers", consumer, "0" }
  for i, entry in ipairs(entries) do
    call[i + 5] = entry
  end
  call[#call + 1] = "FORCE"
  call[#call + 1] = "JUSTID"
  return redis.pcall(unpack(call))
end

-- Adds entries to the pending list of a consumer, with idle time 0. Returns nil when all of them
-- exist, else the set of those that do. The first claim creates the group. An invalid entry id does
-- not affect the others.
function lease.take_entries(root, consumer, entries)
  local ready = root .. "ready"
  local taken = entries[2] and take_all(ready, consumer, entries)
    or take_entry(ready, consumer, entries[1])
  -- The error of fakeredis is not a string.
  local fault = taken.err and tostring(taken.err)
  if fault and string.find(fault, "NOGROUP", 1, true) then
    redis.call("XGROUP", "CREATE", ready, "workers", "0", "MKSTREAM")
    return lease.take_entries(root, consumer, entries)
  elseif fault and string.find(fault, "^ERR") then
    taken = {}
    for _, entry in ipairs(entries) do
      taken[#taken + 1] = take_entry(ready, consumer, entry)[1]
    end
  elseif fault then
    error(fault)
  end
  if #taken == #entries then
    return nil
  end
  local set = {}
  for _, entry in ipairs(taken) do
    set[entry] = true
  end
  return set
end

-- Writes the lease of `claim` { consumer, bits, started, at } into the hash of a task, where `at`
-- is the time as text, and returns the row for its holder. A task that does not begin at once has
-- no start time yet. `row` is entry, token, flags, def0, def1, def2, created; `reserved` is what
-- was reserved for the task, if anything.
function lease.write(root, id, row, claim, begins)
  local epoch = row[2] and string.match(row[2], "^%d+") + 1 or "1"
  local token, special = epoch .. ":" .. claim.bits, row[3] and tasks.has_flag(row[3], "m")
  local state = claim.started and "RUNNING" or "CLAIMED"
  local holder = claim.started and begins and claim.at .. " " .. claim.at .. " " .. claim.consumer
    or claim.at .. " 0 " .. claim.consumer
  if row.reserved then
    redis.call("HSET", root .. "task:" .. id, "state", state, "token", token, "holder", holder,
      "reserved", row.reserved)
  else
    redis.call("HSET", root .. "task:" .. id, "state", state, "token", token, "holder", holder)
  end
  if special and claim.started then
    identity.release_at_start(root, id)
  end
  if row[2] or special then
    return tasks.holder_row(root, id, token, row[1])
  end
  -- A first claim of a plain task. Where the task has waited for others, it is older than its
  -- entry, and `created` is set.
  local def = row[4] and not row[6] and row[4] .. (row[5] or "")
    or definition.read_long(root, id, row)
  return { id, token, row[7] or row[1], def }
end

-- Starts a held task that is CLAIMED. `row` is state, token, lane, entry, flags, holder; `now` is
-- text.
function lease.start(root, now, id, token, row)
  local key = root .. "task:" .. id
  redis.call("ZREM", root .. "handoffs", tasks.delivery_member(id, token))
  local claimed, _, owner = tasks.split_holder(row[6])
  redis.call("HSET", key, "state", "RUNNING", "holder", claimed .. " " .. now .. " " .. owner)
  lease.take_entries(root, owner, { row[4] })
  lanes.count(root, row[3], "CLAIMED", -1)
  lanes.count(root, row[3], "RUNNING", 1)
  if tasks.has_flag(row[5], "m") then
    identity.release_at_start(root, id)
  end
end

-- Records that a RUNNING task begins that was prefetched, by its `holder`.
function lease.stamp_start(root, now, id, holder)
  local claimed, started, owner = tasks.split_holder(holder)
  if started == "0" then
    redis.call("HSET", root .. "task:" .. id, "holder", claimed .. " " .. now .. " " .. owner)
  end
end

-- Extends the timeout of a task by `more_ms`; `timeout_ms` is that of a task without its own.
function lease.extend(root, id, row, more_ms, timeout_ms)
  local more = tasks.more(root, id, row[5])
  more.timeout = (more.timeout or tonumber(timeout_ms)) + tonumber(more_ms)
  redis.call("HSET", root .. "task:" .. id, "more", cjson.encode(more))
  tasks.add_flag(root, id, "m")
end

-- Makes a held task READY again at its old place, without spending an attempt; a task whose DAG is
-- paused is held. `how.touched` collects the lanes. `row` is state, token, lane, entry, flags.
function lease.release(root, id, row, settled, how)
  local key, lane = root .. "task:" .. id, row[3]
  redis.call("XACK", root .. "ready", "workers", row[4])
  redis.call("ZREM", root .. "handoffs", tasks.delivery_member(id, row[2]))
  redis.call("HSET", key, "state", "READY", "settled", settled)
  lanes.count(root, lane, row[1], -1)
  wake.left_running(root, id, lane)
  local dag = row[5] and paused.holding_dag(root, row[5], how)
  if dag then
    return paused.hold(root, dag, id, lane)
  end
  lanes.enter(root, lane, { redis.call("HGET", key, "score"), id })
  how.touched[lane] = true
end

-- Ends the lease of a task, which waits in `delayed` until `due`. `fields` are added to its hash.
function lease.retry_later(root, id, row, due, fields)
  local key, lane, entry = root .. "task:" .. id, row[3], row[4]
  indexes.delete_entry(root, entry)
  redis.call("ZREM", root .. "handoffs", tasks.delivery_member(id, row[2]))
  -- The id of the entry is the time of creation until the task has another entry.
  redis.call("HSETNX", key, "created", string.match(entry, "^%d+"))
  redis.call("HSET", key, "state", "RETRYING", "due", due, unpack(fields))
  redis.call("HDEL", key, "entry")
  redis.call("ZADD", root .. "delayed", due, id)
  lanes.count(root, lane, row[1], -1)
  wake.left_running(root, id, lane)
  lanes.count(root, lane, "RETRYING", 1)
end

-- Notifies the holder of a task that it has lost the lease: the worker stops its code at once, and
-- not at the next renewal. Each worker reads the mailbox of its own name.
function lease.notify_holder(root, id, row)
  if row.state == "CLAIMED" or row.state == "RUNNING" or row.state == "VALIDATING" then
    local holder = redis.call("HGET", root .. "task:" .. id, "holder")
    local _, _, owner = tasks.split_holder(holder or "")
    if owner then
      if row.state ~= "CLAIMED" then
        late.expect_report(root, id, row.token)
      end
      mailbox.put(root, "@" .. owner, "fenced " .. id .. " " .. row.token)
    end
  end
end
