-- @include flagged
-- @include put_mail
-- Mails everyone who waits for the task's end.
local function tell_watchers(root, id, flags)
  if not flagged(flags, "w") then
    return
  end
  for _, box in ipairs(redis.call("SMEMBERS", root .. "watchers:" .. id)) do
    put_mail(root, box, "ended " .. id)
  end
  redis.call("DEL", root .. "watchers:" .. id)
end
