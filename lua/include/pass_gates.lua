-- Counts that so many tasks of a lane have passed its gates, if it has any.
local function pass_gates(lane, number)
  for _, gate in ipairs(lane.gates or {}) do
    gate.left = gate.left - number
  end
end
