-- @include only_ready
-- @include hand_out
-- @include mark_picked
-- @include end_all_turns
-- Gives the picks of a claim to `who` that looked at lanes of keys too; the rows, and how many of
-- the picks were held back or are none.
local function give_turns(root, now, picks, open, who)
  local given, held, ready = {}, 0, only_ready(root, open, picks)
  if #ready > 0 then
    given, held = hand_out(root, now, ready, open, who)
    mark_picked(root, now, open, given, who)
  end
  end_all_turns(root, now, open, given)
  return given, held + #picks - #ready
end
