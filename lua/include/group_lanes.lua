-- The open lanes whose keys have turns are one group: what one of them gives moves its key in all.
-- `at` has by key how far the turns of those have come that were given something in this call,
-- `now` how far all have; `rivals` is whether there are other lanes.
local function group_lanes(root, open)
  local came = tonumber(redis.call("ZSCORE", root .. "turned", "@now") or "0")
  local group = { at = {}, came = came, now = came, served = -1 }
  for _, lane in ipairs(open) do
    if lane.rules and lane.rules.fair then
      lane.group = group
      group[#group + 1] = lane
    end
  end
  group.first, group.rivals = group[1], #open > #group
  open.group = group[1] and group
end
