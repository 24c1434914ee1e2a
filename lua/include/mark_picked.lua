-- @include mark_passed rarely
-- Remembers of what was picked from the lanes what bears on later claims: the task that its worker
-- runs alone, and what has passed a gate.
local function mark_picked(root, now, open, given, who)
  for _, lane in ipairs(open) do
    if lane.alone and lane.picked[1] then
      redis.call("HSET", root .. "worker:" .. who.consumer, "alone", lane.picked[1])
    end
    if lane.gates and lane.picked[1] then
      mark_passed(root, now, lane, given)
    end
  end
end
