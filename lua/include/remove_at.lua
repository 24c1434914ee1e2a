-- Takes what stands at a place out of each of these lists.
local function remove_at(place, ...)
  for _, list in ipairs({ ... }) do
    table.remove(list, place)
  end
end
