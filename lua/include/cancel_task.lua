-- @include leave_indexes
-- @include end_task
-- @include emit
-- @include tell_holder
-- @include tally
-- Ends a live task as CANCELLED and returns its outbox value. `how.request` names the call, if
-- the task was asked for by name.
local function cancel_task(root, now, id, row, reason, how)
  tell_holder(root, id, row)
  leave_indexes(root, id, row.state, row.lane, row.entry, row.token)
  tally(how, row.flags, "open", "cancelled")
  end_task(root, id, row, "CANCELLED", not how.archive and how.ttl,
    { "finished", now, "why", reason,
      "settled", how.request and "cancel " .. how.request or "cancel" })
  emit(root, how.events, "task.cancelled", id, reason)
  return (row.more.life or 1) .. " CANCELLED"
end
