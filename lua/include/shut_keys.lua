-- @include shut_key
-- @include line_up
-- @include may_pass
-- The keys of a lane that were looked at have no turns for a while where they let nothing pass now,
-- or nothing is left of them. Where a claim could not look at all, the promoter goes on.
local function shut_keys(root, now, lane)
  local number = lane.number
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
