-- @include more_of
-- @include flagged
-- @include tell_watchers
-- @include unblock_dependents
-- @include forget_later
-- What a completion means for a task that has a key, tags, watchers or dependents.
local function complete_special(root, id, row, how)
  local more, flags = more_of(root, id, row[5]), row[5]
  if more.idem and redis.call("GET", root .. "idem:" .. more.idem) == id then
    redis.call("PEXPIRE", root .. "idem:" .. more.idem, more.window)
  end
  redis.call("ZREM", root .. "deadlines", id)
  tell_watchers(root, id, flags)
  if flagged(flags, "d") then
    unblock_dependents(root, id, how.limit, how.touched)
  end
  if not how.archive then
    forget_later(root, id, how.ttl, flags, more)
  end
  return more.life or 1
end
