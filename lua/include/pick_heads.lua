-- @include next_head
-- @include lane_verdict
-- @include pass_gates
-- @include remove_at
-- The `n` best tasks over several open lanes in exact order: lowest effective priority, then
-- lowest id. Adds to each lane the ids `picked` from it.
local function pick_heads(root, now, open, n, who)
  local minutes, chunk = now / 60000, math.ceil(2 * n / #open)
  local picks, live, value, head = {}, {}, {}, {}
  for _, lane in ipairs(open) do
    local id = next_head(root, lane, chunk)
    if id then
      local i = #live + 1
      live[i], head[i], value[i] = lane, id, lane.heads[2] - lane.rate * minutes
    end
  end
  while #picks < n and #live > 0 do
    local best = 1
    for i = 2, #live do
      if value[i] < value[best] or (value[i] == value[best] and head[i] < head[best]) then
        best = i
      end
    end
    local lane = live[best]
    local verdict = (lane.alone or lane.gates or who.purse)
      and lane_verdict(root, now, lane, head[best], #picks, who)
    if not verdict or verdict == "run" then
      picks[#picks + 1], lane.picked[#lane.picked + 1] = head[best], head[best]
      pass_gates(lane, 1)
    end
    n = (verdict == "run" or verdict == "drain") and 0 or n
    head[best] = (not verdict or verdict == "next") and next_head(root, lane, chunk)
    value[best] = head[best] and lane.heads[lane.at + 1] - lane.rate * minutes
    if not head[best] then
      remove_at(best, live, value, head)
    end
  end
  return picks
end
