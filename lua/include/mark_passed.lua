-- @include count_passed
-- @include limit_gate
-- @include slow_gate
-- Writes down what has passed the gates of a lane, not what was held back or lost. A gate whose
-- last place was taken is looked at again: who waits then is to be answered when it opens.
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
  count_passed(root, now, lane.gates, passed)
  for _, gate in ipairs(lane.gates) do
    if gate.left < 1 and gate.words then
      limit_gate(root, now, gate.words)
    elseif gate.left < 1 and gate.slow then
      slow_gate(root, now, gate.slow)
    end
  end
end
