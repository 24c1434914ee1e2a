-- How many bytes a part of a reply has: of a list, all that is in it.
local function weight_of(part)
  if type(part) ~= "table" then
    return #tostring(part)
  end
  local bytes = 0
  for _, one in ipairs(part) do
    bytes = bytes + weight_of(one)
  end
  return bytes
end
