-- @include next_head
-- @include may_run_alone
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
    -- A task that was lost once runs alone: nothing is given beside it.
    local verdict = lane.alone and may_run_alone(root, now, lane, #picks, who)
    if not verdict or verdict == "run" then
      picks[#picks + 1] = head[best]
      lane.picked[#lane.picked + 1] = head[best]
    end
    n = verdict and verdict ~= "skip" and 0 or n
    head[best] = not verdict and next_head(root, lane, chunk)
    if head[best] then
      value[best] = lane.heads[lane.at + 1] - lane.rate * minutes
    else
      table.remove(live, best)
      table.remove(value, best)
      table.remove(head, best)
    end
  end
  return picks
end
