-- @include leave_key
-- @include advance_turns
-- @include shut_key
-- @include line_up
-- @include may_pass
-- What was picked of a lane of keys leaves its key, and was given where it stands in `rows` by its
-- id. Keys go a turn further, or have none for a while where they let nothing pass now.
local function end_turns(root, now, lane, rows)
  local number, served = lane.number, -1
  for _, one in ipairs(lane.seen) do
    served = math.max(served, leave_key(root, now, number, one, rows) or -1)
  end
  if lane.rules.fair and served >= 0 then
    advance_turns(root, lane, served)
  end
  for _, one in ipairs(lane.seen) do
    local shut = not may_pass(one.gates) and shut_key(root, now, lane, one)
    if not lane.rules.fair and (shut or one.empty) then
      redis.call("ZREM", root .. "heads:" .. number, unpack(one.members))
    end
    if shut or one.empty or #one.picked > 0 or #one.stale > 0 then
      line_up(root, number, one.key)
    end
  end
  if lane.capped then
    redis.call("ZADD", root .. "wakes", now, number)
  end
  if redis.call("EXISTS", root .. "lane:" .. number) == 0 then
    redis.call("DEL", root .. "turned:" .. number)
  end
end
