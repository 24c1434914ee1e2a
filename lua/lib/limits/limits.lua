-- Rate limits and concurrency limits, of a type, of the queue and of a tenant.

-- How many tasks of a type are leased, or of the whole queue for "*", by the counters of its lanes.
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

-- The gate of a limit { what, rate, per_ms, at_once }; 0 is no limit. Where nothing may pass,
-- waiting claims are answered when the window has room or a leased task ends.
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

-- How many more tasks may begin now by a limit { what, rate, per_ms }, and when the next place is
-- free. Tasks are counted in hundredths of the window, by the time at which they begin. A hundredth
-- counts until all of it has left the window, so that no window of that length has more than
-- `rate`, also after the length was changed.
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

-- How many tasks of a tenant are leased, of a type or of the queue for "*".
local function running_of_tenant(root, type, tenant)
  local leased, sum = root .. "hand:" .. tenant, 0
  if type == "*" then
    return redis.call("ZCARD", leased)
  end
  for _, lane in ipairs(lanes.with_tenants(root, type)) do
    sum = sum + redis.call("ZCOUNT", leased, lane, lane)
  end
  return sum
end

-- The gate of a limit { type, rate, per_ms, at_once } for a tenant; 0 is no limit.
local function tenant_gate(root, now, limit, tenant)
  local type, rate, per_ms, at_once = unpack(limit)
  local gate = { left = math.huge, limit = type .. "@" .. tenant, per_ms = per_ms, rate = rate,
    at_once = at_once, type = type, tenant = tenant }
  if rate > 0 then
    gate.left = limits.rate_left(root, now, { gate.limit, rate, per_ms })
  end
  if at_once > 0 then
    gate.left = math.min(gate.left, at_once - running_of_tenant(root, type, tenant))
  end
  return gate
end

-- The gates of a tenant beside those of its lane, by the lane's `rules`. `by_tenant` caches the
-- gates of a call: several lanes may have tasks of the tenant.
function limits.tenant_gates(root, now, rules, by_tenant, tenant)
  local gates = {}
  for _, limit in ipairs(rules.own[tenant] or rules.each) do
    local what = limit[1] .. "@" .. tenant
    by_tenant[what] = by_tenant[what] or tenant_gate(root, now, limit, tenant)
    gates[#gates + 1] = by_tenant[what]
  end
  if by_tenant.slowed == nil then
    by_tenant.slowed = redis.call("EXISTS", root .. "slowed") == 1
  end
  local what = "@" .. tenant
  if by_tenant.slowed and by_tenant[what] == nil then
    local gate = slowdown.gate(root, now, what)
    by_tenant[what] = gate == "blocked" and { left = 0, slow = what } or gate
  end
  gates[#gates + 1] = by_tenant[what] or nil
  return gates
end

-- When a closed gate of a tenant opens: math.huge where a leased task must end first, nil where it
-- is open after all.
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
  local full = gate.at_once > 0 and running_of_tenant(root, gate.type, gate.tenant) >= gate.at_once
  return full and math.huge or nil
end
