-- @include end_turns
-- Ends a claim's look at the lanes of keys among those that were open; `given` are its rows.
local function end_all_turns(root, now, open, given)
  local rows = {}
  for _, row in ipairs(given) do
    rows[row[1]] = row
  end
  for _, lane in ipairs(open) do
    if lane.seen then
      end_turns(root, now, lane, rows)
    end
  end
end
