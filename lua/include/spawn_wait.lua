-- @include gather_tasks rarely
-- @include leave_gather
-- @include suspend_task
-- Lets a task that spawns wait for those that are `open`, or notes that it is to, where this is a
-- part of a wait of several calls. Whether it waits.
local function spawn_wait(root, now, ask, open, trigger)
  local waits = #open > 0
  if ask.gather then
    waits, open = gather_tasks(root, ask, open, trigger), {}
  elseif waits then
    leave_gather(root, ask.id)
  end
  if waits then
    suspend_task(root, now, ask.id, ask.row, open, trigger)
  end
  return waits
end
