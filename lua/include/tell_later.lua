-- @include flagged
-- Leaves those who wait for a task's end, whatever it is, to the next call of `unblock`.
local function tell_later(root, id, flags)
  if flagged(flags, "h") then
    redis.call("SADD", root .. "telling", id)
  end
end
