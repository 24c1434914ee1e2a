-- @include cancel_awaited
-- @include cancel_task
-- @include cancel_dependents
-- @include tally_dags
-- @include send_to_outbox
-- Cancels the waiting task that holds the key of a new one. What waits for it can never run: the
-- promoter cancels it. `new.archive` is whether the queue has one, known for the whole call.
local function replace_holder(root, now, holder, row, new)
  local how = cjson.decode(new.how)
  how.archive = new.archive or how.archive == "1"
  cancel_awaited(root, holder, row)
  local value = cancel_task(root, now, holder, row, "replaced by " .. new.id, how)
  cancel_dependents(root, holder, row.flags, "cascade", "cancelled")
  tally_dags(root, now, how)
  send_to_outbox(root, how.archive, { holder, value })
end
