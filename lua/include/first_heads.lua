-- @include next_head
-- The open lanes that have a head, the heads, and their effective priorities. A group of lanes has
-- one, and is there with the lane of it.
local function first_heads(root, now, open, chunk)
  local live, head, value = {}, {}, {}
  for _, lane in ipairs(open) do
    if not lane.group or lane.group.first == lane then
      local i, id, points, from = #live + 1, next_head(root, now, lane, chunk)
      if id then
        live[i], head[i], value[i] = from, id, points
      end
    end
  end
  return live, head, value
end
