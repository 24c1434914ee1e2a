-- @include is_keyed
-- @include enter_keys rarely
-- Puts READY tasks into their lane: a list of score, id, score, id, ... `keys` has the limit keys
-- of some by their ids, where they are known.
local function enter_lane(root, lane, scores, keys)
  redis.call("ZADD", root .. "lane:" .. lane, unpack(scores))
  if is_keyed(lane) then
    enter_keys(root, lane, scores, keys or {})
  end
end
