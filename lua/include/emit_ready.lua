-- @include emit
-- Tells of the tasks that became READY because what they waited for is there: one event a call.
local function emit_ready(root, cap, ids)
  if #ids > 0 then
    emit(root, cap, "task.ready", table.concat(ids, " "), #ids)
  end
end
