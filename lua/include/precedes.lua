-- Whether the entry of one id stands before that of another in a stream.
local function precedes(one, other)
  local ms, at = string.match(one, "^(%d+)-(%d+)$")
  local other_ms, other_at = string.match(other, "^(%d+)-(%d+)$")
  if ms ~= other_ms then
    return tonumber(ms) < tonumber(other_ms)
  end
  return tonumber(at) < tonumber(other_at)
end
