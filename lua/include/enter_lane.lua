-- @include is_keyed
-- @include enter_keys rarely
-- Puts READY tasks into their lane: a list of score, id, score, id, ...
local function enter_lane(root, lane, scores)
  redis.call("ZADD", root .. "lane:" .. lane, unpack(scores))
  if is_keyed(lane) then
    enter_keys(root, lane, scores)
  end
end
