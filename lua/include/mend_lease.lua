-- @include mend_entry
-- @include holder_of
-- @include lease_entries
-- Puts a task in hand back into the pending list of its holder, where it is in none: a holder
-- that lives renews it, and the reaper sees one that does not. Whether it was missing. A lease on
-- an entry that is gone counts as one: the sweep of the stream takes it first.
local function mend_lease(root, now, id, entry, holder)
  local held = entry and redis.pcall("XPENDING", root .. "ready", "workers", entry, entry, 1)
  if held and not held.err and #held > 0 then
    return false
  end
  local _, _, owner = holder_of(holder or "0 0 nobody")
  lease_entries(root, owner, { mend_entry(root, now, id, entry) })
  redis.call("ZADD", root .. "workers", "NX", now, owner)
  return true
end
