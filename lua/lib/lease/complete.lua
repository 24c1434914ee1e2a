-- Completion of held tasks, many in one call.

-- Applies the effects of a completion on what a task has beside the plain fields: its idempotency
-- key, deadline, watchers, dependents and DAG. The keys of a task of a DAG do not expire before the
-- DAG has ended. Returns the task's life.
local function complete_special(root, id, row, how)
  local flags = row[5]
  if not how.order then
    indexes.prepare(how, tonumber(how.limit))
  end
  local traits = tasks.traits(how, flags)
  local more = traits.more and tasks.more(root, id, flags)
  if more and more.idem and redis.call("GET", root .. "idem:" .. more.idem) == id then
    redis.call("PEXPIRE", root .. "idem:" .. more.idem, more.window)
  end
  if more and more.deadline then
    redis.call("ZREM", root .. "deadlines", id)
  end
  if traits.watched then
    mailbox.notify_watchers(root, id, flags)
  end
  local dependent = traits.only and redis.call("HGET", root .. "task:" .. id, "down")
  if dependent then
    unblock.note_met(how, dependent, id)
  end
  if traits.dependents then
    unblock.dependents(root, id, how)
  end
  if traits.triggered then
    unblock.notify_ended(root, id, "COMPLETED", how)
  end
  if traits.dag then
    status.tally_dag_of(how, traits.dag, "open")
  elseif not how.archive then
    tasks.expire(root, id, how.ttl, flags, more or {})
  end
  -- As text: formatting a number for each task would cost more than the rest of this line.
  return more and more.life or "1"
end

-- Completes a held task, and adds its entry and its outbox value to the lists of `how`. `row` is
-- that of lease.held with def0, which is set where the definition is in the hash and has no key.
local function complete_task(root, finished, id, row, result, how)
  local key, lane = root .. "task:" .. id, row[3]
  redis.call("HSET", key, "state", "COMPLETED", "finished", finished)
  if result ~= "" and (how.archive or tasks.dag_of(row[5])) then
    redis.call("SET", root .. "result:" .. id, result)
  elseif result ~= "" then
    redis.call("SET", root .. "result:" .. id, result, "PX", how.ttl)
  end
  local value = "1 COMPLETED"
  if row[5] then
    if tasks.has_flag(row[5], "c") then
      local refunds, kept = how.refunds or {}, redis.call("HGET", key, "reserved") or ""
      local texts = refunds[row[5]] or {}
      texts[kept], refunds[row[5]], how.refunds = (texts[kept] or 0) + 1, texts, refunds
    end
    value = complete_special(root, id, row, how) .. " COMPLETED"
  elseif not how.archive then
    redis.call("PEXPIRE", key, how.ttl)
    if not row[6] then
      redis.call("PEXPIRE", root .. "def:" .. id, how.ttl)
    end
  end
  if how.has_deliveries then
    redis.call("ZREM", root .. "handoffs", tasks.delivery_member(id, row[2]))
  end
  if how.leases then
    how.leases[id .. " " .. row[2]] = true
  end
  if tasks.has_tenant(lane) then
    how.with_tenant = how.with_tenant or {}
    how.with_tenant[#how.with_tenant + 1] = id
  end
  local n, states = #how.entries + 1, how.lanes[lane] or {}
  how.entries[n], how.ended[2 * n - 1], how.ended[2 * n] = row[4], id, value
  states[row[1]], how.lanes[lane] = (states[row[1]] or 0) + 1, states
end

-- Checks once per call for what bears on completions and is mostly absent: an archive that the
-- caller is not configured with, deliveries (`has_deliveries`), and gates, for which `leases`
-- collects the completed leases.
local function read_conditions(root, configured, how)
  how.archive = configured == "1"
  local found = how.archive
    and redis.call("EXISTS", root .. "handoffs", root .. "breakers", root .. "crowded")
    or redis.call("EXISTS", root .. "handoffs", root .. "breakers", root .. "crowded",
      root .. "archiving")
  if found > 0 then
    how.archive, how.has_deliveries = calls.has_archive(root, configured), true
    how.leases = redis.call("EXISTS", root .. "breakers", root .. "crowded") > 0 and {}
  end
end

-- Counts completions: `how.lanes` has for each lane how many tasks were in which state before.
-- Those `with_tenant` leave the leased tasks of their tenants.
local function write_counts(root, how)
  if how.with_tenant then
    tenants.leave_running(root, how.with_tenant, how.touched)
  end
  for lane, states in pairs(how.lanes) do
    local done = 0
    for state, number in pairs(states) do
      lanes.count(root, lane, state, -number)
      done = done + number
    end
    lanes.count(root, lane, "COMPLETED", done)
  end
end

-- Applies the effects of completions on gates. A closed breaker forgets its failures, a half-open
-- one closes with its probe; tasks that began before a breaker opened do not affect it. Where a
-- concurrency limit was reached there is room now, and what was reserved and not spent is refunded.
-- `how` has the `lanes` of what was completed, its `refunds`, and each lease in `leases` where
-- there are gates; `how.touched` collects the lanes whose tasks may pass now.
local function reopen_gates(root, how)
  local numbers = {}
  how.back = 100
  for _, account in ipairs(accounts.refund(root, how.refunds or {})) do
    accounts.refunded(root, account, how)
  end
  for lane in pairs(how.leases and how.lanes or {}) do
    numbers[#numbers + 1] = lane
  end
  for _, what in ipairs(#numbers > 0 and redis.call("SMEMBERS", root .. "crowded") or {}) do
    lanes.touch_type(root, what, how.touched)
    redis.call("SREM", root .. "crowded", what)
  end
  for _, type in ipairs(#numbers > 0 and lanes.types_of(root, numbers) or {}) do
    if redis.call("SISMEMBER", root .. "breakers", type) == 1 then
      local row = redis.call("HMGET", root .. "breaker:" .. type, "state", "probe")
      if not row[1] then
        breaker.close(root, type)
      elseif row[2] and how.leases[row[2]] then
        breaker.close(root, type, row[1], how.events)
        lanes.touch_type(root, type, how.touched)
      end
    end
  end
end

-- Completes the tasks whose rows { task, token, result } are in `args` from `first` on. `how` is {
-- archive, ttl, limit, tries, events }; `finished` is `now` as text. Adds a word for each to the
-- reply. Returns whether dependents or waiting claims are left for another call.
function complete.many(root, args, now, finished, first, how, reply)
  how.lanes, how.entries, how.ended, how.touched = {}, {}, {}, {}
  read_conditions(root, how.archive, how)
  for at = first, #args, 3 do
    local id, token = args[at], args[at + 1]
    local held, row = lease.held(root, id, token, not how.archive and "def0")
    local word = "OK"
    if held and row[1] == "CLAIMED" then
      word = "STATE:CLAIMED"
    elseif held then
      complete_task(root, finished, id, row, args[at + 2], how)
    elseif row[1] ~= "COMPLETED" or row[2] ~= token then
      word = "LOST"
    end
    reply[#reply + 1] = word
  end
  if #how.entries > 0 then
    indexes.delete_entries(root, how.entries)
    event.send_to_outbox(root, how.archive, how.ended)
  end
  write_counts(root, how)
  if how.leases or how.refunds then
    reopen_gates(root, how)
  end
  if how.dags or how.order and (#how.order > 0 or #how.readied > 0) then
    unblock.finish(root, now, how)
  end
  return next(how.touched) and answer.touched(root, now, how.touched, how.tries) or how.unfinished
end
