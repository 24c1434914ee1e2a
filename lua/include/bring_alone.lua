-- @include bring_task
-- @include answer_lanes
-- Gives a `task` { id, entry, lane, definition } that was just written to `waiter`, who is parked
-- under the one `profile` of its lane; where that cannot be, or there are more, it stands in its
-- lane and they are answered. 1 where more who wait are to be answered.
local function bring_alone(root, now, task, score, waiter, profile, tries)
  if waiter and bring_task(root, now, waiter, profile, task) then
    return 0
  end
  redis.call("ZADD", root .. "lane:" .. task[3], score, task[1])
  return answer_lanes(root, now, { task[3] }, tries) and 1 or 0
end
