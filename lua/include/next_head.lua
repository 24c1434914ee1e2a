-- Moves a lane on to its next head, `chunk` of them fetched at a time; false at its end.
-- Nothing leaves the lane until all picks are made, so that ranks do not shift meanwhile.
local function next_head(root, lane, chunk)
  lane.at = (lane.at or -1) + 2
  if not lane.heads or lane.at > #lane.heads then
    lane.from = lane.heads and lane.from + chunk or 0
    lane.heads = redis.call("ZRANGE", root .. "lane:" .. lane.number,
      lane.from, lane.from + chunk - 1, "WITHSCORES")
    lane.at = 1
  end
  return lane.heads[lane.at] or false
end
