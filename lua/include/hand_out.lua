-- @include dag_of
-- @include dag_gate rarely
-- @include lease_entries
-- @include write_claim
-- @include leave_lane
-- Leases the picks to `who` { consumer, bits, started, begin }; returns one row a task, and how
-- many of them were held back. A pick of a DAG that is paused or closing leaves its lane for those
-- that are held; one without its entry is left to the orphan sweep, named in `orphans`.
local function hand_out(root, now, picks, open, who)
  local task, rows, entries, kept, seen, held = root .. "task:", {}, {}, {}, {}, {}
  for _, id in ipairs(picks) do
    local row = redis.call("HMGET", task .. id,
      "entry", "token", "flags", "def0", "def1", "def2", "created")
    local flags = row[3]
    if flags and not (seen[flags] or dag_gate(root, flags, seen)) then
      held[id] = dag_of(flags)
    else
      local n = #kept + 1
      kept[n], rows[n], entries[n] = id, row, row[1] or "0-1"
    end
  end
  local there = #kept > 0 and lease_entries(root, who.consumer, entries)
  local given, at, lost = {}, string.format("%.0f", now), {}
  for i, id in ipairs(kept) do
    if there and not there[rows[i][1]] then
      redis.call("SADD", root .. "orphans", id)
      lost[id] = 1
    else
      given[#given + 1] = write_claim(root, at, id, rows[i], who,
        not who.begin or i <= who.begin)
    end
  end
  for _, lane in ipairs(open) do
    leave_lane(root, lane, held, lost, who.started and "RUNNING" or "CLAIMED")
  end
  return given, #picks - #kept
end
