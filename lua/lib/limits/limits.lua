-- Rate limits and concurrency limits, of a type, of the queue and of a tenant.

-- How many tasks of a type are in hand, or of the whole queue for "*": its lanes count them.
local function running_of_type(root, what)
  lanes.index_types(root)
  local all, names, sum = redis.call("HGETALL", root .. "types"), {}, 0
  for at = 1, #all, 2 do
    if what == "*" or all[at + 1] == what then
      for _, state in ipairs({ "CLAIMED", "RUNNING", "VALIDATING" }) do
        names[#names + 1] = all[at] .. ":" .. state
      end
    end
  end
  if #names == 0 then
    return 0
  end
  for _, number in ipairs(redis.call("HMGET", root .. "stats", unpack(names))) do
    sum = sum + tonumber(number or 0)
  end
  return sum
end

-- The gate of a limit { what, rate, per_ms, at_once }; 0 is no limit. Where nothing may pass, who
-- waits is answered when the window lets go of something, or one of those in hand is.
function limits.gate(root, now, limit)
  local what, rate, per_ms, at_once = unpack(limit)
  local gate = { left = math.huge, limit = what, per_ms = per_ms, rate = rate, words = limit }
  if rate > 0 then
    local left, opens = limits.rate_left(root, now, limit)
    gate.left = left
    if left < 1 then
      redis.call("ZADD", root .. "wakes", "LT", opens, what)
    end
  end
  if at_once > 0 then
    gate.left = math.min(gate.left, at_once - running_of_type(root, what))
    if gate.left < 1 then
      redis.call("SADD", root .. "crowded", what)
    end
  end
  return gate
end

-- How many more may begin by a limit { what, rate, per_ms } now, and when the next place is free.
-- What has begun is counted in hundredths of the window, by the time at which they begin, and each
-- counts until all of it is out: so no window of that length ever has more than `rate`, whatever
-- length the one had by which others were counted.
function limits.rate_left(root, now, limit)
  local key, per_ms = root .. "limit:" .. limit[1], limit[3]
  local width, used, oldest = math.max(1, per_ms / 100), 0, nil
  local flat = redis.call("HGETALL", key)
  for at = 1, #flat, 2 do
    local from = tonumber(flat[at])
    if from + width + per_ms <= now then
      redis.call("HDEL", key, flat[at])
    else
      used = used + tonumber(flat[at + 1])
      oldest = math.min(oldest or from, from)
    end
  end
  return limit[2] - used, oldest and math.ceil(oldest + width + per_ms)
end

-- How many tasks of a key are in hand, of a type or of the queue for "*".
local function running_of_tenant(root, type, key)
  local hand, sum = root .. "hand:" .. key, 0
  if type == "*" then
    return redis.call("ZCARD", hand)
  end
  for _, lane in ipairs(lanes.with_tenants(root, type)) do
    sum = sum + redis.call("ZCOUNT", hand, lane, lane)
  end
  return sum
end

-- The gate of a limit { type, rate, per_ms, at_once } for a key; 0 is no limit.
local function tenant_gate(root, now, limit, key)
  local type, rate, per_ms, at_once = unpack(limit)
  local gate = { left = math.huge, limit = type .. "@" .. key, per_ms = per_ms, rate = rate,
    at_once = at_once, type = type, key = key }
  if rate > 0 then
    gate.left = limits.rate_left(root, now, { gate.limit, rate, per_ms })
  end
  if at_once > 0 then
    gate.left = math.min(gate.left, at_once - running_of_tenant(root, type, key))
  end
  return gate
end

-- What the tasks of a key must pass beside the gates of their lane, by the lane's `rules`: a list
-- of gates. Those of one call are kept in `doors`: several lanes may have tasks of the key.
function limits.tenant_gates(root, now, rules, by_tenant, key)
  local gates = {}
  for _, limit in ipairs(rules.own[key] or rules.each) do
    local what = limit[1] .. "@" .. key
    by_tenant[what] = by_tenant[what] or tenant_gate(root, now, limit, key)
    gates[#gates + 1] = by_tenant[what]
  end
  if by_tenant.slowed == nil then
    by_tenant.slowed = redis.call("EXISTS", root .. "slowed") == 1
  end
  local what = "@" .. key
  if by_tenant.slowed and by_tenant[what] == nil then
    local gate = slowdown.gate(root, now, what)
    by_tenant[what] = gate == "blocked" and { left = 0, slow = what } or gate
  end
  gates[#gates + 1] = by_tenant[what] or nil
  return gates
end

-- When a gate of a key opens that lets nothing pass: math.huge where one in hand must end first,
-- nil where it is open after all.
function limits.opens_at(root, now, gate)
  if gate.slow then
    local slow, opens = slowdown.gate(root, now, gate.slow)
    return slow == "blocked" and opens or nil
  end
  if gate.rate > 0 then
    local left, opens = limits.rate_left(root, now, { gate.limit, gate.rate, gate.per_ms })
    if left < 1 then
      return opens
    end
  end
  local full = gate.at_once > 0 and running_of_tenant(root, gate.type, gate.key) >= gate.at_once
  return full and math.huge or nil
end
