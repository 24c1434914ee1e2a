-- @include more_of
-- @include flagged
-- @include dag_of
-- @include tally
-- @include tell_watchers
-- @include unblock_dependents
-- @include tell_heirs rarely
-- @include forget_later
-- What a completion means for a task that has a key, tags, watchers or dependents, or is one of a
-- DAG: the keys of that wait for the end of all.
local function complete_special(root, id, row, how)
  local more, flags = more_of(root, id, row[5]), row[5]
  if more.idem and redis.call("GET", root .. "idem:" .. more.idem) == id then
    redis.call("PEXPIRE", root .. "idem:" .. more.idem, more.window)
  end
  if more.deadline then
    redis.call("ZREM", root .. "deadlines", id)
  end
  tell_watchers(root, id, flags)
  if flagged(flags, "d") then
    unblock_dependents(root, id, how)
  end
  if flagged(flags, "h") then
    tell_heirs(root, id, "COMPLETED", how)
  end
  if dag_of(flags) then
    tally(how, flags, "open")
  elseif not how.archive then
    forget_later(root, id, how.ttl, flags, more)
  end
  return more.life or 1
end
