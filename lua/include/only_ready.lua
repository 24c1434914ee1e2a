-- Of the picks of a claim those that stand in their lanes: what a key has beside these is not
-- READY, and is never given. Each lane of keys keeps in `picked` its own of them.
local function only_ready(root, open, picks)
  local stale, kept = {}, {}
  for _, lane in ipairs(open) do
    local there = lane.rules and lane.picked[1]
      and redis.call("ZMSCORE", root .. "lane:" .. lane.number, unpack(lane.picked)) or {}
    local own = lane.picked
    lane.picked = lane.rules and {} or own
    for i, score in ipairs(there) do
      stale[own[i]] = not score
      lane.picked[#lane.picked + 1] = score and own[i] or nil
    end
  end
  for _, id in ipairs(picks) do
    kept[#kept + 1] = not stale[id] and id or nil
  end
  return kept
end
