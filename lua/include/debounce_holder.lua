-- @include is_waiting
-- @include delay_task
-- @include write_def
-- Where the new task asked for it, gives the waiting task that holds its key the new definition,
-- and lets it wait anew.
local function debounce_holder(root, now, holder, row, new)
  if new.ask ~= "debounce" or not is_waiting(row.state) then
    return
  end
  write_def(root, holder, new.def)
  if new.due then
    delay_task(root, now, holder, row, new.due)
  end
end
