-- @include unblock_task
-- @include fire_heir
-- @include skip_heir
-- @include cancel_later
-- Tells those who wait for a task's end, whatever it is, that it has ended in this state: as many
-- as `how` has left. What is left stays, and the task in `telling`: the next call goes on. One
-- that waits for a failure runs at the first and is given up when all ended without any.
local function tell_heirs(root, parent, state, how)
  local key, skipped = root .. "heirs:" .. parent, {}
  local heirs = how.left > 0 and redis.call("HRANDFIELD", key, how.left, "WITHVALUES") or {}
  for i = 1, #heirs, 2 do
    local child, kind = heirs[i], heirs[i + 1]
    if kind == "all_done" then
      unblock_task(root, child, parent, how)
    elseif state == "DEAD_LETTERED" then
      fire_heir(root, child, parent, how)
    elseif skip_heir(root, child, parent) then
      skipped[#skipped + 1] = { child, "no parent failed", "cascade" }
    end
    redis.call("HDEL", key, child)
  end
  cancel_later(root, skipped)
  how.left = how.left - #heirs / 2
  local more = redis.call("EXISTS", key) == 1
  redis.call(more and "SADD" or "SREM", root .. "telling", parent)
  how.unfinished = how.unfinished or more
end
