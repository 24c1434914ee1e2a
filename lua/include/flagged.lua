-- Whether the task's `flags` field has a letter: m more, d dependents, w watchers, f failures,
-- n notes, h heirs, s spawned, k steps, p many parents, o one dependent in its hash, u the one that
-- each of its parents has there, c a price. The ULID of its DAG stands among them, see dag_of.
local function flagged(flags, letter)
  return flags and string.find(flags, letter, 1, true) ~= nil
end
