-- Costs that a run reports after it lost its lease.

-- Records a run whose lease ends while its code may continue: it may still report its cost once,
-- see take_expected. The last ten of these runs are kept, each with the number of its last note.
function late.expect_report(root, id, token)
  local key = root .. "task:" .. id
  local known = redis.call("HMGET", key, "holder", "owed")
  local _, _, owner = tasks.split_holder(known[1] or "")
  local run, seq = string.match(redis.call("HGET", root .. "notes:" .. id, "noted") or "",
    "^(%S+) (%d+)$")
  local lines = { token .. " " .. (run == token and seq or 0) .. " " .. (owner or "nobody") }
  for line in string.gmatch(known[2] or "", "[^\n]+") do
    lines[#lines + 1] = #lines < 10 and line or nil
  end
  redis.call("HSET", key, "owed", table.concat(lines, "\n"))
end

-- Returns the worker that ran a task under a token whose lease has ended, if that run has not
-- reported its cost since, and removes the record: the run reports now, in its note `seq`, or ""
-- for a manual one, and not again. An earlier note that is sent again reports nothing. Also returns
-- the life that the run belonged to, where that is an earlier one, see close_costs.
local function take_expected(root, id, token, seq)
  local key, owner, past, lines = root .. "task:" .. id, nil, nil, {}
  for line in string.gmatch(redis.call("HGET", key, "owed") or "", "[^\n]+") do
    local of, last, life, name = string.match(line, "^(%S+) (%d+)%*?(%d*) (.*)$")
    if of == token and (seq == "" or tonumber(seq) > tonumber(last)) then
      owner, past = name, life ~= "" and life or nil
    else
      lines[#lines + 1] = line
    end
  end
  if owner and #lines > 0 then
    redis.call("HSET", key, "owed", table.concat(lines, "\n"))
  elseif owner then
    redis.call("HDEL", key, "owed")
  end
  return owner, past
end

-- Sends the cost that a `run` has reported late to the archive, in full, since the task may be
-- deleted before the archive reads it. The token of the run and the number of its note, 0 for a
-- manual one, identify the cost: a run reports one.
local function send_to_archive(root, now, run, cost, archive)
  local facts = cjson.encode({ at = string.format("%.0f", now), token = run.token,
    seq = run.seq ~= "" and run.seq or "0", owner = run.owner, model = run.model,
    micro_usd = cost[1], tokens_in = cost[2], tokens_out = cost[3] })
  event.send_to_outbox(root, archive, { run.id, run.life .. " COST " .. facts })
end

-- Records the cost that a `run` { id, token, flags, seq, model } reports after its lease has ended,
-- once. Returns whether it is counted, also for the same note sent again: field `told` names the
-- last one. The cost of an earlier life does not count against the limit of this one. The archive
-- gets the cost at once, beside all lives: field `late` is the part of this life's cost that it got
-- this way.
function late.record(root, now, run, cost, archive)
  local id, notes = run.id, root .. "notes:" .. run.id
  if cost[1] == "0" and cost[2] == "0" and cost[3] == "0" then
    return false
  end
  local note = run.token .. " " .. run.seq
  local owner, past = take_expected(root, id, run.token, run.seq)
  if not owner then
    return run.seq ~= "" and redis.call("HGET", notes, "told") == note
  end
  run.owner = owner
  run.life = past or string.format("%.0f", tasks.more(root, id, run.flags).life or 1)
  accounts.note_cost(root, now, id, run.flags, owner, cost, true)
  local name = past and "before" or archive and "late"
  for i, part in ipairs(name and { name, name .. "_in", name .. "_out" } or {}) do
    redis.call("HINCRBY", notes, part, cost[i])
  end
  -- The record of this attempt is written: the cost must not appear in that of the next one.
  redis.call("HINCRBY", notes, "recorded_usd", cost[1])
  redis.call("HINCRBY", notes, "recorded_tokens", cost[2] + cost[3])
  redis.call("HSET", notes, "told", note)
  tasks.add_flag(root, id, "n")
  -- An ended task is kept for a limited time, and its notes for as long.
  local left = redis.call("PTTL", root .. "task:" .. id)
  if left > 0 then
    redis.call("PEXPIRE", notes, left)
  end
  send_to_archive(root, now, run, cost, archive)
  return true
end

-- Closes the costs of a `life` when the next one begins: neither the cost so far nor what its runs
-- report late, see take_expected, counts for the new life. Each of those runs is marked with its
-- life.
function late.close_costs(root, id, flags, life)
  local key, notes = root .. "task:" .. id, root .. "notes:" .. id
  if tasks.has_flag(flags, "n") then
    local costs = redis.call("HMGET", notes, "micro_usd", "tokens_in", "tokens_out")
    redis.call("HSET", notes, "before", costs[1] or 0, "before_in", costs[2] or 0,
      "before_out", costs[3] or 0)
    redis.call("HDEL", notes, "late", "late_in", "late_out")
  end
  local owed = redis.call("HGET", key, "owed")
  if owed then
    local mark = string.format("\n%%1*%.0f ", life)
    owed = string.gsub("\n" .. owed, "\n(%S+ %d+) ", mark)
    redis.call("HSET", key, "owed", string.sub(owed, 2))
  end
end

-- Whether a run must end because of its cost: its task has exceeded its cost limit in this life, or
-- the run has exceeded its reservation and an account that pays it is overdrawn.
function late.is_overrun(root, now, id, flags, owner)
  local row = redis.call("HMGET", root .. "notes:" .. id, "micro_usd", "before")
  local _, most = accounts.price_of(root, id)
  if most > 0 and (row[1] or 0) - (row[2] or 0) > most then
    return true
  end
  local left = redis.call("HGET", root .. "task:" .. id, "reserved")
  if not left or string.sub(left, 1, 1) ~= "-" then
    return false
  end
  local dag = tasks.dag_of(flags)
  local lefts = { accounts.remaining(root, now, "day") or 0,
    accounts.remaining(root, now, "worker=" .. owner) or 0,
    dag and accounts.dag_remaining(root, dag) or 0 }
  return math.min(unpack(lefts)) < 0
end

-- Whether a note of a run is not stored yet: `seq` is its number in the attempt. A manual note has
-- none; the name of its call identifies it.
function late.is_new_note(root, id, token, seq)
  if seq == "" then
    return true
  end
  local attempt, last = string.match(redis.call("HGET", root .. "notes:" .. id, "noted") or "",
    "^(%S+) (%d+)$")
  return attempt ~= token or tonumber(last) < tonumber(seq)
end
