-- The DAG that a task belongs to, as its `flags` name it: their letters are small, a ULID is not.
-- Nil for a task that is alone.
local function dag_of(flags)
  return flags and string.match(flags, "[0-9A-Z]+")
end
