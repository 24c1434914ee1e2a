-- The next key of a lane that was not looked at, and how far its turns have come; without turns
-- the next of the lane's heads, and its score. `chunk` are fetched at a time, and where there are
-- still more, no more in all than the rules say: `capped`.
local function peek_turn(root, lane, chunk)
  if lane.next > #lane.row and not lane.ended then
    lane.capped = lane.fetched >= lane.rules.most
    local index = lane.rules.fair and "turns:" or "heads:"
    lane.row = lane.capped and {} or redis.call("ZRANGE", root .. index .. lane.number,
      lane.fetched, lane.fetched + chunk - 1, "WITHSCORES")
    lane.fetched, lane.next, lane.ended = lane.fetched + chunk, 1, #lane.row < 2 * chunk
  end
  return lane.row[lane.next], tonumber(lane.row[lane.next + 1])
end
