-- @include waits_of
-- Adds to `found` what a PENDING task waits for: its time, and up to `limit` others, and how many
-- there are where that is more.
local function add_waits(root, id, due, limit, found)
  local named, others = 0, 0
  for _, what in ipairs(waits_of(root, id)) do
    if what == "@time" then
      found[#found + 1] = { "time", "", due or "" }
    elseif named < limit then
      named = named + 1
      found[#found + 1] = { "dependency", what, "" }
    else
      others = others + 1
    end
  end
  if others > 0 then
    found[#found + 1] = { "dependencies", others .. " more", "" }
  end
end
