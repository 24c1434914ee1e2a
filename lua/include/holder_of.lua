-- The words of a holder, "<claimed ms> <started ms, 0 before> <owner>".
local function holder_of(holder)
  return string.match(holder, "^(%d+) (%d+) (%S+)$")
end
