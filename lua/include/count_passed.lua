-- Writes down that tasks, rows { id, token, ... }, have passed gates: the one that tries a breaker
-- is its probe; what is slowed down and a limit count.
local function count_passed(root, now, gates, passed)
  for _, gate in ipairs(#passed > 0 and gates or {}) do
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
