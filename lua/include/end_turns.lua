-- @include leave_key
-- What was picked of a lane of keys leaves its key, and was given where it stands in `rows` by its
-- id.
local function end_turns(root, now, lane, rows)
  lane.gone = {}
  for _, one in ipairs(lane.seen) do
    leave_key(root, now, lane, one, rows)
  end
  if lane.gone[1] then
    redis.call("ZREM", root .. "heads:" .. lane.number, unpack(lane.gone))
  end
end
