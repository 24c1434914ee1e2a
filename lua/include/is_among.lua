-- Whether a list holds an item.
local function is_among(list, item)
  for _, found in ipairs(list) do
    if found == item then
      return true
    end
  end
  return false
end
