-- @include holder_row
-- @include lease_held
-- Of the claims named in `line` ("id token id token ..."), those that are still held: one row a
-- task as `take` gives them, definitions included.
local function still_held(root, line)
  local held = {}
  for id, token in string.gmatch(line or "", "(%S+) (%S+)") do
    local in_hand, row = lease_held(root, id, token)
    if in_hand then
      held[#held + 1] = holder_row(root, id, token, row[4])
    end
  end
  return held
end
