-- @include leave_key
-- @include advance_turns
-- What was picked of a lane of keys leaves its key, and was given where it stands in `rows` by its
-- id: the keys go so many turns further.
local function end_turns(root, now, lane, rows)
  local served = -1
  lane.gone = {}
  for _, one in ipairs(lane.seen) do
    served = math.max(served, leave_key(root, now, lane, one, rows) or -1)
  end
  if lane.gone[1] then
    redis.call("ZREM", root .. "heads:" .. lane.number, unpack(lane.gone))
  end
  if lane.rules.fair and served >= 0 then
    advance_turns(root, lane, served)
  end
end
