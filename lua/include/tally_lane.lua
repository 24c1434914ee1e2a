-- Notes in `how` that the number of a lane's tasks in a state changes.
local function tally_lane(how, lane, state, by)
  local name = lane .. ":" .. state
  how.counts[name] = (how.counts[name] or 0) + by
end
