-- @include hands rarely
-- @include open_lanes
-- @include pick_one_lane
-- @include pick_heads rarely
-- @include hand_out
-- @include mark_passed rarely
-- Up to `n` tasks for `who` from the heads of `lanes`, in exact order; and how many of the heads
-- were held back instead.
local function take_heads(root, now, lanes, n, who)
  if n < 1 then
    return {}, 0
  end
  -- Hands are looked at where it matters only: there is a lane for lost tasks, or one in hand.
  local look = redis.call("HEXISTS", root .. "worker:" .. who.consumer, "alone") == 1
  for _, lane in ipairs(lanes) do
    look = look or lane[4]
  end
  local holding = look and hands(root, who.consumer)
  if holding == "alone" then
    return {}, 0
  end
  who.solo = holding == "none"
  local open = open_lanes(root, now, lanes)
  local picks = #open == 1 and pick_one_lane(root, now, open[1], n, who)
    or pick_heads(root, now, open, n, who)
  if #picks == 0 then
    return {}, 0
  end
  local given, held = hand_out(root, now, picks, open, who)
  for _, lane in ipairs(open) do
    if lane.alone and lane.picked[1] then
      redis.call("HSET", root .. "worker:" .. who.consumer, "alone", lane.picked[1])
    end
    if lane.gates and lane.picked[1] then
      mark_passed(root, now, lane, given)
    end
  end
  return given, held
end
