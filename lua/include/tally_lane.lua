-- Notes in `how` that the number of a lane's tasks in a state changes.
local function tally_lane(how, lane, state, by)
  local states = how.counts[lane] or {}
  how.counts[lane] = states
  states[state] = (states[state] or 0) + by
end
