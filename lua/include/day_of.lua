-- The number of the day of a moment, UTC, as text.
local function day_of(now)
  return string.format("%.0f", math.floor(now / 86400000))
end
