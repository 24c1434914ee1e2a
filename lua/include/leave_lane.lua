-- @include count
-- @include hold_task rarely
-- Takes what was picked out of its lane, and counts what was leased of it: neither what is held
-- back nor what was lost.
local function leave_lane(root, lane, held, lost, state)
  local leased = #lane.picked
  if leased == 0 then
    return
  end
  redis.call("ZREM", root .. "lane:" .. lane.number, unpack(lane.picked))
  if next(held) or next(lost) then
    for _, id in ipairs(lane.picked) do
      leased = leased - ((held[id] or lost[id]) and 1 or 0)
      if held[id] then
        hold_task(root, held[id], id, lane.number)
      end
    end
  end
  if leased > 0 then
    count(root, lane.number, state, leased)
  end
end
