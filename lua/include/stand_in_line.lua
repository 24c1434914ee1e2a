-- Puts a key into the line of those whose turn it may be, behind all whose turn is before its own.
local function stand_in_line(line, one)
  local low, high = 1, #line + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    local other = line[middle]
    if other.at < one.at or (other.at == one.at and other.tie < one.tie) then
      low = middle + 1
    else
      high = middle
    end
  end
  table.insert(line, low, one)
end
