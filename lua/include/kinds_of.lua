-- The lanes of a call, a line "<rate> <signature>" for each, and how far their tasks have aged.
local function kinds_of(lanes, now)
  local kinds = {}
  for rate, signature in string.gmatch(lanes, "(%S+) ([^\n]+)") do
    kinds[#kinds + 1] = { age = rate * now / 60000, signature = signature }
  end
  return kinds
end
