-- @include shut_key
-- @include line_up
-- @include may_pass
-- The keys of a lane that were looked at have no turns for a while where they let nothing pass now,
-- or nothing is left of them. Of one that was given something the next task is a head, or what was
-- passed over. Where a claim could not look at all, the promoter goes on.
local function shut_keys(root, now, lane)
  local number, changed, heads = lane.number, {}, {}
  for _, one in ipairs(lane.seen) do
    local shut = not may_pass(one.gates) and shut_key(root, now, lane, one)
    if not lane.rules.fair and (shut or one.empty) then
      redis.call("ZREM", root .. "heads:" .. number, unpack(one.members))
    end
    if shut or one.empty or one.picked[1] and (one.over or not one.heads[one.pos]) then
      changed[#changed + 1] = one.key
    elseif one.picked[1] then
      heads[#heads + 1], heads[#heads + 2] = one.heads[one.pos + 1], one.heads[one.pos]
    end
  end
  if #heads > 0 then
    redis.call("ZADD", root .. "heads:" .. number, unpack(heads))
  end
  if #changed > 0 then
    line_up(root, number, changed)
  end
  if lane.capped then
    redis.call("ZADD", root .. "wakes", now, number)
  end
end
