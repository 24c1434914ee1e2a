-- Where a lane was picked from past a breaker that is to be tried, the task that was handed out is
-- its probe. One that was held back or lost instead tries nothing: the next claim does.
local function ride_probe(root, lane, given)
  for _, gate in ipairs(lane.gates) do
    for _, row in ipairs(gate.probe and given or {}) do
      if row[1] == lane.picked[1] then
        redis.call("HSET", root .. "breaker:" .. gate.probe, "state", "half-open",
          "probe", row[1] .. " " .. row[2])
      end
    end
  end
end
