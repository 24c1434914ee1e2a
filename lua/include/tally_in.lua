-- Notes in `how` that a task of a DAG goes from one of its counters to another: open, dead,
-- cancelled, or none for a completion. `tally_dags` counts them, all of a call at once.
local function tally_in(how, dag, from, to)
  how.dags = how.dags or {}
  local by = how.dags[dag] or {}
  how.dags[dag] = by
  by[from] = (by[from] or 0) - 1
  if to then
    by[to] = (by[to] or 0) + 1
  end
end
