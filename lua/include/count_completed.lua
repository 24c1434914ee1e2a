-- @include count
-- @include leave_hands rarely
-- Counts completions: `lanes` has for each lane how many tasks were in which state before. Those
-- that have a key, `keyed`, are in hand for it no more.
local function count_completed(root, all)
  if #all.keyed > 0 then
    leave_hands(root, all.keyed, all.touched)
  end
  for lane, states in pairs(all.lanes) do
    local done = 0
    for state, number in pairs(states) do
      count(root, lane, state, -number)
      done = done + number
    end
    count(root, lane, "COMPLETED", done)
  end
end
