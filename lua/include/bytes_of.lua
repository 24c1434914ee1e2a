-- How many bytes the texts of a list have.
local function bytes_of(list)
  local bytes = 0
  for _, text in ipairs(list) do
    bytes = bytes + #text
  end
  return bytes
end
