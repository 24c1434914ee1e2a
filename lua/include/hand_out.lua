-- @include sift_picks
-- @include set_aside rarely
-- @include reserve rarely
-- @include lease_entries
-- @include write_claim
-- @include leave_lane
-- Leases the picks to `who` { consumer, bits, started, begin }; returns one row a task, and how
-- many of them were held back. A pick of a DAG that is paused or closing, or cannot pay it, leaves
-- its lane for those that are held; one without its entry is left to the orphan sweep.
local function hand_out(root, now, picks, open, who)
  local kept, rows, entries, held = sift_picks(root, picks, open.priced)
  local there = #kept > 0 and lease_entries(root, who.consumer, entries)
  local given, at, lost, sums = {}, string.format("%.0f", now), {}, {}
  for i, id in ipairs(kept) do
    local row = rows[i]
    if there and not there[row[1]] then
      redis.call("SADD", root .. "orphans", id)
      lost[id] = 1
    else
      row.reserved = row[8] and set_aside(root, row, who, sums)
      given[#given + 1] = write_claim(root, at, id, row, who, not who.begin or i <= who.begin)
    end
  end
  if next(sums) then
    reserve(root, sums)
  end
  for _, lane in ipairs(open) do
    leave_lane(root, lane, held, lost, who.started and "RUNNING" or "CLAIMED")
  end
  return given, #picks - #kept
end
