-- The first `n` tasks of a single lane: their order is the lane's, no score needs to be read.
local function pick_one_lane(root, lane, n)
  lane.picked = redis.call("ZRANGE", root .. "lane:" .. lane.number, 0, lane.alone and 0 or n - 1)
  return lane.picked
end
