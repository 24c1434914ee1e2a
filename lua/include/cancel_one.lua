-- @include task_row
-- @include is_visible
-- @include cancel_awaited
-- @include cancel_task
-- @include cancel_dependents
-- Cancels a task if it has not ended, for a `why` and with a `rule` for those who wait for it and
-- those for whom it waits, unless the `whole` DAG is given up.
-- Returns the word for it; what ended is added to `how.ended`.
local function cancel_one(root, now, id, why, rule, how)
  local row = task_row(root, id)
  redis.call("HDEL", root .. "cancelling", id)
  if not row.state or not is_visible(root, row) then
    -- What nobody sees yet cannot be named; a cascade that comes to it goes on at its commit.
    if row.state and how.cascading then
      redis.call("HSET", root .. "task:" .. id, "lost", rule .. " " .. why)
    end
    return "GONE"
  elseif row.state == "COMPLETED" or row.state == "DEAD_LETTERED" or row.state == "CANCELLED" then
    local again = redis.call("HGET", root .. "task:" .. id, "settled") == "cancel " .. how.request
    return again and "OK" or "STATE:" .. row.state
  end
  if rule == "cascade" and not how.whole then
    cancel_awaited(root, id, row)
  end
  how.ended[#how.ended + 1] = id
  how.ended[#how.ended + 1] = cancel_task(root, now, id, row, why, how)
  cancel_dependents(root, id, row.flags, rule, "cancelled")
  return "OK"
end
