-- @include hands rarely
-- @include open_lanes
-- @include pick_one_lane
-- @include pick_heads rarely
-- @include hand_out
-- @include mark_picked
-- @include give_turns rarely
-- Up to `n` tasks for `who` from the heads of `lanes`, in exact order; and how many of the heads
-- were held back instead. A worker that was told to drain gets nothing.
local function take_heads(root, now, lanes, n, who)
  if n < 1 then
    return {}, 0
  end
  local mark = redis.call("HMGET", root .. "worker:" .. who.consumer,
    "alone", "drain:" .. who.waiter)
  if mark[2] then
    return {}, 0
  end
  -- Hands are looked at where it matters only: there is a lane for lost tasks, or one in hand.
  local look = mark[1]
  for _, lane in ipairs(lanes) do
    look = look or lane[4]
  end
  local holding = look and hands(root, who.consumer)
  if holding == "alone" then
    return {}, 0
  end
  who.solo = holding == "none"
  local open = open_lanes(root, now, lanes, n, who)
  local one = #open == 1 and not (open[1].rules or who.purse) and open[1]
  local picks = one and pick_one_lane(root, now, one, n, who) or pick_heads(root, now, open, n, who)
  if open.keyed then
    return give_turns(root, now, picks, open, who)
  elseif #picks == 0 then
    return {}, 0
  end
  local given, held = hand_out(root, now, picks, open, who)
  mark_picked(root, now, open, given, who)
  return given, held
end
