-- @include cancel_task
-- @include send_to_outbox
-- Cancels the waiting task that holds the key of a new one.
local function replace_holder(root, now, holder, row, new)
  local how = cjson.decode(new.how)
  local value = cancel_task(root, now, holder, row, "replaced by " .. new.id, how)
  send_to_outbox(root, how.archive, { holder, value })
end
