-- @include wake_due rarely
-- @include answer_touched
-- Where tasks have left the hand other than completed, `how.freed`, who waits for a place or for
-- money that they had is answered now; and who waits for the lanes in `how.touched`. `most` has
-- { tries, woken, back }, see promote. Returns whether there is more than one call may do.
local function answer_freed(root, now, how, most)
  if how.freed and redis.call("ZCOUNT", root .. "wakes", 0, 0) > 0 then
    how.back = most.back
    wake_due(root, now, how, most.woken)
  end
  return answer_touched(root, now, how.touched, most.tries)
end
