-- @include add_field
-- @include task_row
-- @include retry_later
-- @include keep_failure
-- @include bury_task
-- @include leave_indexes
-- Ends a held attempt as failed: RETRYING after `delay` ms, or dead where delay is "".
-- `verdict` is { delay, attempts, reclaims, reason, record, failed_by, poison, settled }.
local function fail_task(root, now, id, row, verdict, how)
  local fields = { "attempts", verdict.attempts, "reclaims", verdict.reclaims,
    "reason", verdict.reason, "settled", verdict.settled }
  add_field(fields, "failed_by", verdict.failed_by ~= "" and verdict.failed_by)
  if verdict.record ~= "" then
    keep_failure(root, now, id, row[5], verdict.record, how.keep)
  end
  if verdict.delay ~= "" then
    retry_later(root, id, row, now + verdict.delay, fields)
    emit(root, how.events, "task.retrying", id,
      table.concat({ verdict.reason, verdict.attempts, verdict.delay }, " "))
    return "RETRYING"
  end
  if verdict.poison ~= "" then
    add_field(fields, "poison", verdict.poison)
    emit(root, how.events, "task.poisoned", id, verdict.failed_by)
  end
  local full = task_row(root, id)
  leave_indexes(root, id, full.state, full.lane, full.entry, full.token)
  how.reason = verdict.reason
  how.ended[#how.ended + 1] = id
  how.ended[#how.ended + 1] = bury_task(root, now, id, full, fields, how)
  return "DEAD_LETTERED"
end
