-- Adds `by` to the number of tasks of a lane in a state. READY is the length of the lane itself.
local function count(root, lane, state, by)
  if state ~= "READY" then
    redis.call("HINCRBY", root .. "stats", lane .. ":" .. state, by)
  end
end
