-- @include answer_lanes
-- Answers parked claims for a set of lanes; see answer_waiting.
local function answer_touched(root, now, touched, tries)
  local lanes = {}
  for lane in pairs(touched) do
    lanes[#lanes + 1] = lane
  end
  return #lanes > 0 and answer_lanes(root, now, lanes, tries)
end
