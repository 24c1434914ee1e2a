-- @include is_keyed
-- @include move_in_key rarely
-- Gives a task another score in its lane, if it stands there: not where it is held back.
local function move_in_lane(root, lane, score, id)
  redis.call("ZADD", root .. "lane:" .. lane, "XX", score, id)
  if is_keyed(lane) then
    move_in_key(root, lane, score, id)
  end
end
