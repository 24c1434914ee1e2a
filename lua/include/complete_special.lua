-- @include traits_of
-- @include more_of
-- @include tally_in
-- @include tell_watchers
-- @include note_met
-- @include unblock_dependents
-- @include tell_heirs rarely
-- @include forget_later
-- What a completion means for a task that has a key, tags, watchers or dependents, or is one of a
-- DAG: the keys of that wait for the end of all.
local function complete_special(root, id, row, how)
  local flags = row[5]
  local traits = traits_of(how, flags)
  local more = traits.more and more_of(root, id, flags)
  if more and more.idem and redis.call("GET", root .. "idem:" .. more.idem) == id then
    redis.call("PEXPIRE", root .. "idem:" .. more.idem, more.window)
  end
  if more and more.deadline then
    redis.call("ZREM", root .. "deadlines", id)
  end
  if traits.watched then
    tell_watchers(root, id, flags)
  end
  if traits.only and row[6] then
    note_met(how, row[6], id)
  end
  if traits.dependents then
    unblock_dependents(root, id, how)
  end
  if traits.heirs then
    tell_heirs(root, id, "COMPLETED", how)
  end
  if traits.dag then
    tally_in(how, traits.dag, "open")
  elseif not how.archive then
    forget_later(root, id, how.ttl, flags, more or {})
  end
  -- Text: a number made text for each task would cost more than the rest of this line.
  return more and more.life or "1"
end
