-- The smaller of two numbers as text, each of which may be missing.
local function sooner(one, other)
  if one and other then
    return tonumber(one) < tonumber(other) and one or other
  end
  return one or other
end
