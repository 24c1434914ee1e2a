-- Whether the task's `flags` field has a letter: m more, d dependents, w watchers, f failures,
-- n notes.
local function flagged(flags, letter)
  return flags and string.find(flags, letter, 1, true) ~= nil
end
