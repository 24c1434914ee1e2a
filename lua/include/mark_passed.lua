-- Writes down what has passed the gates of a lane: the task that tries a breaker is its probe; a
-- type that is slowed down and a limit count. What was held back or lost has not passed.
local function mark_passed(root, now, lane, given)
  local picked, passed = {}, {}
  for _, id in ipairs(lane.picked) do
    picked[id] = true
  end
  for _, row in ipairs(given) do
    if picked[row[1]] then
      passed[#passed + 1] = row
    end
  end
  for _, gate in ipairs(#passed > 0 and lane.gates or {}) do
    if gate.probe then
      redis.call("HSET", root .. "breaker:" .. gate.probe, "state", "half-open",
        "probe", passed[1][1] .. " " .. passed[1][2])
    elseif gate.slow then
      gate.passed = gate.passed + #passed
      redis.call("HSET", root .. "slow:" .. gate.slow, "step", gate.step, "passed", gate.passed)
    elseif gate.rate > 0 then
      local key = root .. "limit:" .. gate.limit
      local slot = math.floor(now / math.max(1, gate.per_ms / 100))
      redis.call("HINCRBY", key, string.format("%.0f", slot), #passed)
      redis.call("PEXPIRE", key, 2 * gate.per_ms)
    end
  end
end
