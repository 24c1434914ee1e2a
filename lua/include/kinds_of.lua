-- The kinds of tasks of a call, a line "<rate>[$<estimate>:<most>] <signature>" for each: how far
-- they have aged, their lane and their price, "" for none.
local function kinds_of(lanes, now)
  local kinds = {}
  for rate, price, signature in string.gmatch(lanes, "([^%s$]+)%$?(%S*) ([^\n]+)") do
    kinds[#kinds + 1] = { age = rate * now / 60000, signature = signature, price = price,
      scores = {} }
  end
  return kinds
end
