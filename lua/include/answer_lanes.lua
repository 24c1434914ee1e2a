-- @include anyone_waits
-- @include answer_waiting rarely
-- Answers parked claims that these lanes could serve; see answer_waiting. Mostly nobody waits.
local function answer_lanes(root, now, lanes, tries)
  return anyone_waits(root, lanes) and answer_waiting(root, now, lanes, tries)
end
