-- @include count
-- @include enter_lane
-- Puts what a call has collected into the indexes: `scores` of tasks by lane, `blocked` and
-- `unblocked` ones, and the `counts` of lanes.
local function enter_indexes(root, how)
  for lane, scores in pairs(how.scores) do
    enter_lane(root, lane, scores)
  end
  if #how.blocked > 0 then
    redis.call("ZADD", root .. "blocked", unpack(how.blocked))
  end
  if #how.unblocked > 0 then
    redis.call("ZREM", root .. "blocked", unpack(how.unblocked))
  end
  for lane, states in pairs(how.counts) do
    for state, number in pairs(states) do
      if number ~= 0 then
        count(root, lane, state, number)
      end
    end
  end
  how.scores, how.blocked, how.unblocked, how.counts = {}, {}, {}, {}
end
