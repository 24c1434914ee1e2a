-- The lanes of a list of { number, rate, type, alone } that may be served now: none that is
-- paused. `alone` is false, or for how many ms a worker keeps its hands free for the lane's tasks.
local function open_lanes(root, lanes)
  local paused = {}
  for _, what in ipairs(redis.call("SMEMBERS", root .. "paused")) do
    paused[what] = true
  end
  local open = {}
  for _, lane in ipairs(lanes) do
    local shut = paused["queue"] or paused["lane=" .. lane[1]] or paused["type=" .. lane[3]]
    if not shut then
      open[#open + 1] = { number = lane[1], rate = lane[2], alone = lane[4], picked = {} }
    end
  end
  return open
end
