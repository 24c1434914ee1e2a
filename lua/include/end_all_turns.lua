-- @include end_turns
-- @include advance_turns rarely
-- @include shut_keys
-- Ends a claim's look at the lanes of keys among those that were open; `given` are its rows. What
-- was given of all lanes is counted before any key is shut: a key may be in several.
local function end_all_turns(root, now, open, given)
  local rows, looked, group = {}, {}, open.group
  for _, row in ipairs(given) do
    rows[row[1]] = row
  end
  for _, lane in ipairs(open) do
    if lane.seen then
      looked[#looked + 1] = lane
      end_turns(root, now, lane, rows)
    end
  end
  if group and group.served >= 0 then
    advance_turns(root, group, looked)
  end
  for _, lane in ipairs(looked) do
    shut_keys(root, now, lane)
  end
end
