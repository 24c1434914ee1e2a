-- @include delay_task
-- @include write_def
-- Gives the waiting task that holds the key the new definition, and lets it wait anew.
local function debounce_holder(root, now, holder, row, def, due)
  write_def(root, holder, def)
  if due then
    delay_task(root, now, holder, row, due)
  end
end
