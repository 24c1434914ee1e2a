-- @include cancel_task
-- @include cancel_dependents
-- @include send_to_outbox
-- Cancels the waiting task that holds the key of a new one. What waits for it can never run: the
-- promoter cancels it.
local function replace_holder(root, now, holder, row, new)
  local how, orphaned = cjson.decode(new.how), {}
  local value = cancel_task(root, now, holder, row, "replaced by " .. new.id, how)
  cancel_dependents(root, holder, row.flags, "cascade", orphaned, {}, 0)
  for _, child in ipairs(orphaned) do
    redis.call("HSET", root .. "cancelling", child[1], child[2])
  end
  send_to_outbox(root, how.archive, { holder, value })
end
