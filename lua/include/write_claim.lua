-- @include free_at_start rarely
-- @include holder_row rarely
-- @include long_def rarely
-- @include flagged
-- Writes the lease into the task's hash and returns what its holder needs to know. One that does
-- not begin at once has no time of its start yet. `row` is
-- entry, token, flags, def0, def1, def2, created; `reserved` is what was set aside for it, if any.
local function write_claim(root, now, id, row, who, begins)
  local epoch = row[2] and string.match(row[2], "^%d+") + 1 or "1"
  local token, special = epoch .. ":" .. who.bits, row[3] and flagged(row[3], "m")
  local state = who.started and "RUNNING" or "CLAIMED"
  local holder = now .. (who.started and begins and " " .. now or " 0") .. " " .. who.consumer
  if row.reserved then
    redis.call("HSET", root .. "task:" .. id, "state", state, "token", token, "holder", holder,
      "reserved", row.reserved)
  else
    redis.call("HSET", root .. "task:" .. id, "state", state, "token", token, "holder", holder)
  end
  if special and who.started then
    free_at_start(root, id)
  end
  if row[2] or special then
    return holder_row(root, id, token, row[1])
  end
  -- Fresh, and nothing special to say: one that has waited for others is older than its entry.
  local def = row[4] and not row[6] and row[4] .. (row[5] or "") or long_def(root, id, row)
  return { id, token, row[7] or row[1], def }
end
