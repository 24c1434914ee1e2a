-- Gates of a lane: what its tasks must pass before they are leased.

-- The gates of all lanes of a type; `blocked` where one of them lets nothing pass.
local function of_type(root, now, type)
  local found = {}
  for _, gate in ipairs({ breaker.gate(root, now, type), (slowdown.gate(root, now, type)) }) do
    if gate == "blocked" then
      return { blocked = true }
    elseif gate then
      found[#found + 1] = gate
    end
  end
  return found
end

-- The gates of each of these lanes: number -> list of gates { left, ... }, shared by the lanes that
-- they apply to; nothing for a lane that is paused or whose gates let nothing pass.
function gates.of_lanes(root, now, lanes)
  local paused, types, known, found = {}, {}, {}, {}
  for _, what in ipairs(redis.call("SMEMBERS", root .. "paused")) do
    paused[what] = true
  end
  for _, lane in ipairs(lanes) do
    local number, type = lane[1], lane[3]
    if not (paused["queue"] or paused["lane=" .. number] or paused["type=" .. type]) then
      types[type] = types[type] or of_type(root, now, type)
      local own, open = { unpack(types[type]) }, not types[type].blocked
      for _, limit in ipairs(lane[5] or {}) do
        known[limit[1]] = known[limit[1]] or limits.gate(root, now, limit)
        own[#own + 1] = known[limit[1]]
        open = open and known[limit[1]].left >= 1
      end
      found[number] = open and own or nil
    end
  end
  return found
end

-- Whether the gates of a lane let one more task pass.
function gates.open(list)
  for _, gate in ipairs(list) do
    if gate.left < 1 then
      return false
    end
  end
  return true
end

-- How many of `n` tasks the gates let pass.
function gates.most(list, n)
  for _, gate in ipairs(list) do
    n = math.min(n, gate.left)
  end
  return n
end

-- Counts `number` tasks of a lane that have passed its gates, if it has any.
function gates.pass(lane, number)
  if not lane.gates then
    return
  end
  for _, gate in ipairs(lane.gates) do
    gate.left = gate.left - number
  end
end

-- Writes that tasks have passed the gates of a lane: the leased ones, not those that were held or
-- lost. A gate that is full now is evaluated again, so that it has an entry in `wakes` for when it
-- opens.
function gates.mark(root, now, lane, given)
  local picked, passed = {}, {}
  for _, id in ipairs(lane.picked) do
    picked[id] = true
  end
  for _, row in ipairs(given) do
    if picked[row[1]] then
      passed[#passed + 1] = row
    end
  end
  gates.write_passed(root, now, lane.gates, passed)
  for _, gate in ipairs(lane.gates) do
    if gate.left < 1 and gate.words then
      limits.gate(root, now, gate.words)
    elseif gate.left < 1 and gate.slow then
      slowdown.gate(root, now, gate.slow)
    end
  end
end

-- Writes that tasks, rows { id, token, ... }, have passed gates: the first is the probe of a
-- breaker; slow-downs and rate limits count them.
function gates.write_passed(root, now, list, passed)
  for _, gate in ipairs(#passed > 0 and list or {}) do
    if gate.probe then
      redis.call("HSET", root .. "breaker:" .. gate.probe, "state", "half-open",
        "probe", passed[1][1] .. " " .. passed[1][2])
    elseif gate.slow then
      gate.passed = gate.passed + #passed
      redis.call("HSET", root .. "slow:" .. gate.slow, "step", gate.step, "passed", gate.passed)
    elseif gate.rate > 0 then
      local key = root .. "limit:" .. gate.limit
      local width = math.max(1, gate.per_ms / 100)
      local from = math.floor(math.floor(now / width) * width)
      redis.call("HINCRBY", key, string.format("%.0f", from), #passed)
      redis.call("PEXPIRE", key, 2 * gate.per_ms)
    end
  end
end
