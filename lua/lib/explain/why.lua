-- Why a task does not run: what it waits for and which gates are closed.

-- Adds to `found` what a PENDING task waits for: its time, up to `limit` dependencies, and the
-- number of the others.
function why.waits(root, id, due, limit, found)
  local named, others = 0, 0
  for _, what in ipairs(edges.waits_of(root, id)) do
    if what == "@time" then
      found[#found + 1] = { "time", "", due or "" }
    elseif named < limit then
      named = named + 1
      found[#found + 1] = { "dependency", what, "" }
    else
      others = others + 1
    end
  end
  if others > 0 then
    found[#found + 1] = { "dependencies", others .. " more", "" }
  end
end

-- Adds to `found` the gates that let no task of a lane pass now, and when each opens.
function why.gates(root, now, lane, dag, found)
  local number, type = lane[1], lane[3]
  local row = redis.call("HMGET", root .. "dag:" .. (dag or ""), "paused", "closing")
  if row[1] or row[2] then
    found[#found + 1] = { row[2] and "given up" or "paused", "dag=" .. dag, "" }
  end
  for _, what in ipairs({ "queue", "type=" .. type, "lane=" .. number }) do
    if redis.call("SISMEMBER", root .. "paused", what) == 1 then
      found[#found + 1] = { "paused", what, "" }
    end
  end
  if breaker.gate(root, now, type) == "blocked" then
    local rest = redis.call("HMGET", root .. "breaker:" .. type, "state", "until")
    local open = tonumber(rest[2]) > now
    found[#found + 1] = { "breaker", open and "open" or "half-open", open and rest[2] or "" }
  end
  local slow, again = slowdown.gate(root, now, type)
  if slow == "blocked" then
    found[#found + 1] = { "slowed", type, again }
  end
  for _, limit in ipairs(lane[5] or {}) do
    if limits.gate(root, now, limit).left < 1 then
      local left, opens = limits.rate_left(root, now, limit)
      local full = limit[2] > 0 and left < 1
      found[#found + 1] = { "limit", limit[1], full and opens or "" }
    end
  end
end

-- Adds to `found` the gates that let no task of a tenant pass now, and when each opens.
function why.tenant_gates(root, now, rules, tenant, found)
  for _, gate in ipairs(limits.tenant_gates(root, now, rules, {}, tenant)) do
    local opens = gate.left < 1 and limits.opens_at(root, now, gate)
    if opens then
      found[#found + 1] = { gate.slow and "slowed" or "limit", gate.slow or gate.limit,
        opens < math.huge and string.format("%.0f", opens) or "" }
    end
  end
end

-- Adds to `found` how many tasks of a lane of tenants have their turn before this one, as things
-- are now. Of the tenants before its own, as many are counted exactly as a claim checks, each other
-- one as one turn. Tasks of other lanes are not counted: a worker may serve those lanes or not.
function why.turns(root, lane, id, tenant, found)
  local number, rules, turns = lane[1], lane[6], root .. "turns:" .. lane[1]
  local keyed = root .. "keyed:" .. number .. ":"
  local at, own = redis.call("ZSCORE", turns, tenant), redis.call("ZRANK", keyed .. tenant, id)
  if not at or not own then
    return
  end
  local mine = at + own * (rules.steps[tenant] or rules.step)
  local bound, before = string.format("%.0f", mine), own
  local first = redis.call("ZRANGEBYSCORE", turns, "-inf", bound, "WITHSCORES", "LIMIT", 0,
    rules.most)
  for i = 1, #first, 2 do
    local other, step = first[i], rules.steps[first[i]] or rules.step
    if other ~= tenant then
      local times = math.floor((mine - first[i + 1]) / step) + 1
      if first[i + 1] + (times - 1) * step == mine and other > tenant then
        times = times - 1
      end
      before = before + math.min(times, redis.call("ZCARD", keyed .. other))
    end
  end
  local rest = redis.call("ZCOUNT", turns, "-inf", bound) - rules.most
  found[#found + 1] = { "turn", string.format("%.0f", before + math.max(rest, 0)), "" }
end

-- Adds to `found` the accounts that cannot pay a task now: that of its DAG, and that of the day
-- until the day ends, unless no day can pay it. The `price` comes last, to be compared with those
-- of workers.
function why.budgets(root, now, id, dag, found)
  local price = accounts.price_of(root, id)
  local left = dag and accounts.dag_remaining(root, dag)
  if left and price > left then
    found[#found + 1] = { "budget", "dag=" .. dag, "" }
  end
  left = accounts.remaining(root, now, "day")
  if left and price > left then
    local never = price > tonumber(redis.call("HGET", root .. "budget:day", "ceiling"))
    found[#found + 1] = { "budget", "day",
      never and "" or string.format("%.0f", (math.floor(now / 86400000) + 1) * 86400000) }
  end
  if price > 0 then
    found[#found + 1] = { "price", string.format("%.0f", price), "" }
  end
end

-- The number of tasks of a lane before `id` with this `score`: lower scores, then lower ids. Equal
-- scores are in the order of their ids, so that a binary search finds the place.
function why.count_before(root, lane, score, id)
  local key = root .. "lane:" .. lane
  local low = redis.call("ZCOUNT", key, "-inf", "(" .. score)
  local high = low + redis.call("ZCOUNT", key, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if redis.call("ZRANGE", key, middle, middle)[1] < id then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end
