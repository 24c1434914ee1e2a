-- @include wait_for_none
-- @include cancel_later
-- @include unblock_task
-- All parents of a revived task know of it, see note_parents: it waits for them alone. Where one is
-- `lost` it is given up, and so is one that waits for a failure where no parent is left that could
-- fail; one has failed where it is `fired`.
local function told_parents(root, id, trigger, lost, fired, how)
  local waits = root .. "waits:" .. id
  redis.call("HDEL", root .. "unfinished", "revive " .. id)
  redis.call("HDEL", root .. "task:" .. id, "parents")
  local others = redis.call("SCARD", waits) - redis.call("SISMEMBER", waits, "@time") - 1
  if lost then
    return cancel_later(root, { { id, "Parent task_" .. lost .. " cancelled", "cascade" } })
  elseif fired then
    wait_for_none(root, id)
  elseif trigger == "one_failed" and others == 0 then
    return cancel_later(root, { { id, "no parent failed", "cascade" } })
  end
  unblock_task(root, id, "@parents", how)
end
