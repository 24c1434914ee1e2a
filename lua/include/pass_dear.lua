-- @include run_short
-- @include pass_over rarely
-- The head of a lane cannot be paid from a purse: "next" where another may be cheaper, "skip" where
-- a hundred were looked at in vain.
local function pass_dear(root, now, purse, lane)
  run_short(root, now, purse)
  lane.dear = (lane.dear or 0) + 1
  if lane.rules then
    pass_over(root, lane)
  end
  return lane.dear < 100 and "next" or "skip"
end
