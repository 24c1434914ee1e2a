-- @include lease_entries
-- @include write_claim
-- @include count
-- Leases the picks to `who` { consumer, bits, started, begin }; returns one row a task.
-- A pick without its entry is left to the orphan sweep: out of its lane, named in `orphans`.
local function hand_out(root, now, picks, open, who)
  local task, rows, entries = root .. "task:", {}, {}
  for i, id in ipairs(picks) do
    local row = redis.call("HMGET", task .. id,
      "entry", "token", "flags", "def0", "def1", "def2")
    rows[i], entries[i] = row, row[1] or "0-1"
  end
  local there = lease_entries(root, who.consumer, entries)
  local given, at, lost = {}, string.format("%.0f", now), {}
  for i, id in ipairs(picks) do
    if there and not there[rows[i][1]] then
      redis.call("SADD", root .. "orphans", id)
      lost[id] = 1
    else
      given[#given + 1] = write_claim(root, at, id, rows[i], who,
        not who.begin or i <= who.begin)
    end
  end
  for _, lane in ipairs(open) do
    local leased = #lane.picked
    if leased > 0 then
      redis.call("ZREM", root .. "lane:" .. lane.number, unpack(lane.picked))
      for _, id in ipairs(there and lane.picked or {}) do
        leased = leased - (lost[id] or 0)
      end
      count(root, lane.number, who.started and "RUNNING" or "CLAIMED", leased)
    end
  end
  return given
end
