-- @include parent_of
-- Of the parents named: those that a new task with this trigger waits for, or nil and the one that
-- can never be met. By default a parent must complete: one that is dead may live again. With
-- "all_done" any end is one; with "one_failed" the first death is enough, which is said third, and
-- where every parent has ended without one, and it has no `others`, there is none to wait for.
local function open_parents(root, parents, trigger, others)
  local open, ended = {}, nil
  for _, parent in ipairs(parents) do
    local id, state = parent_of(root, parent)
    if not state or (state == "CANCELLED" and not trigger) then
      return nil, id
    elseif state == "DEAD_LETTERED" and trigger == "one_failed" then
      return {}, nil, true
    elseif state == "COMPLETED" or (trigger and (state == "CANCELLED"
      or state == "DEAD_LETTERED")) then
      ended = id
    else
      open[#open + 1] = id
    end
  end
  if trigger == "one_failed" and #open == 0 and ended and not others then
    return nil, ended
  end
  return open
end
