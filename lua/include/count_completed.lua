-- @include count
-- Counts completions: `lanes` has for each lane how many tasks were in which state before.
local function count_completed(root, lanes)
  for lane, states in pairs(lanes) do
    local done = 0
    for state, number in pairs(states) do
      count(root, lane, state, -number)
      done = done + number
    end
    count(root, lane, "COMPLETED", done)
  end
end
