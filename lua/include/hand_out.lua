-- @include sift_picks
-- @include reserve rarely
-- @include flagged
-- @include lease_entries
-- @include write_claim
-- @include leave_lane
-- Leases the picks to `who` { consumer, bits, started, begin }; returns one row a task, and how
-- many of them were held back. A pick of a DAG that is paused or closing, or cannot pay it, leaves
-- its lane for those that are held; one without its entry is left to the orphan sweep.
local function hand_out(root, now, picks, open, who)
  local kept, rows, entries, held = sift_picks(root, picks)
  local there = #kept > 0 and lease_entries(root, who.consumer, entries)
  local given, at, lost, priced = {}, string.format("%.0f", now), {}, {}
  for i, id in ipairs(kept) do
    if there and not there[rows[i][1]] then
      redis.call("SADD", root .. "orphans", id)
      lost[id] = 1
    else
      given[#given + 1] = write_claim(root, at, id, rows[i], who,
        not who.begin or i <= who.begin)
      local flags = rows[i][3]
      priced[#priced + 1] = flags and flagged(flags, "c") and { id, flags } or nil
    end
  end
  if priced[1] then
    reserve(root, priced, who.consumer)
  end
  for _, lane in ipairs(open) do
    leave_lane(root, lane, held, lost, who.started and "RUNNING" or "CLAIMED")
  end
  return given, #picks - #kept
end
