-- @include dag_of
-- @include tally_in
-- Notes in `how` that a task, if it is one of a DAG, goes from one of its counters to another.
local function tally(how, flags, from, to)
  local dag = dag_of(flags)
  if dag then
    tally_in(how, dag, from, to)
  end
end
