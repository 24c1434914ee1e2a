-- @include flagged
-- @include dag_of
-- What the `flags` of a task say, read once for all tasks of a call that have the same.
local function traits_of(how, flags)
  how.traits = how.traits or {}
  local traits = how.traits[flags]
  if not traits then
    traits = { dag = dag_of(flags), more = flagged(flags, "m"), watched = flagged(flags, "w"),
      only = flagged(flags, "o"), dependents = flagged(flags, "d"), heirs = flagged(flags, "h") }
    how.traits[flags] = traits
  end
  return traits
end
