-- @include first_heads
-- @include next_head
-- @include lane_verdict
-- @include pass_head
-- @include leave_group rarely
-- @include remove_at
-- The `n` best tasks over several open lanes in exact order: lowest effective priority, then
-- lowest id; of a group of lanes by turns. Adds to each lane the ids `picked` from it.
local function pick_heads(root, now, open, n, who)
  local chunk, picks = math.ceil(2 * n / #open), {}
  local live, head, value = first_heads(root, now, open, chunk)
  while #picks < n and #live > 0 do
    local best = 1
    for i = 2, #live do
      if value[i] < value[best] or (value[i] == value[best] and head[i] < head[best]) then
        best = i
      end
    end
    local lane = live[best]
    local verdict = lane.checked and lane_verdict(root, now, lane, head[best], #picks, who)
    if verdict == "skip" and lane.group then
      verdict = leave_group(lane)
    elseif not verdict or verdict == "run" then
      picks[#picks + 1], lane.picked[#lane.picked + 1] = head[best], head[best]
      if lane.gates or lane.rules then
        pass_head(root, lane)
      end
    end
    if (verdict and verdict ~= "next") or #picks == n then
      head[best], n = false, (verdict == "run" or verdict == "drain") and 0 or n
    else
      head[best], value[best], live[best] = next_head(root, now, lane, chunk)
    end
    if not head[best] then
      remove_at(best, live, value, head)
    end
  end
  return picks
end
