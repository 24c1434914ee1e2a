-- @include flag
-- @include cancel_later
-- Looks at up to `limit` of the parents that a PENDING task waits for, any of them: each must know
-- it, and one that has ended must be about to tell it. Whether anything was missing.
local function mend_parents(root, id, limit)
  local mended = false
  for _, parent in ipairs(redis.call("SRANDMEMBER", root .. "waits:" .. id, limit)) do
    local state = redis.call("HGET", root .. "task:" .. parent, "state")
    if state and redis.call("SADD", root .. "dependents:" .. parent, id) == 1 then
      flag(root, parent, "d")
      mended = true
    end
    local telling = redis.call("SISMEMBER", root .. "unblocking", parent) == 1
      or redis.call("HEXISTS", root .. "cancelling", id) == 1
    if state == "COMPLETED" and not telling then
      redis.call("SADD", root .. "unblocking", parent)
      mended = true
    elseif state == "CANCELLED" and not telling then
      cancel_later(root, { { id, "Parent task_" .. parent .. " cancelled", "cascade" } }, 1)
      mended = true
    end
  end
  return mended
end
