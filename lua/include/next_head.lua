-- @include next_turn rarely
-- @include group_turn rarely
-- Moves a lane on to its next head, `chunk` of them fetched at a time; its id, its effective
-- priority, and its lane, which may be another of the same group; false at the end. Nothing leaves
-- the lane until all picks are made, so that ranks do not shift meanwhile.
local function next_head(root, now, lane, chunk)
  if lane.group then
    return group_turn(root, now, lane.group, chunk)
  elseif lane.rules then
    local id, points = next_turn(root, now, lane, chunk)
    return id, points, lane
  end
  lane.at = (lane.at or -1) + 2
  if not lane.heads or lane.at > #lane.heads then
    lane.from = lane.heads and lane.from + chunk or 0
    lane.heads = redis.call("ZRANGE", root .. "lane:" .. lane.number,
      lane.from, lane.from + chunk - 1, "WITHSCORES")
    lane.at = 1
  end
  local id, score = lane.heads[lane.at], lane.heads[lane.at + 1]
  return id or false, id and score - lane.rate * (now / 60000) or false, lane
end
