-- @include tally_dag rarely
-- Counts what `tally` has noted.
local function tally_dags(root, now, how)
  for dag, by in pairs(how.dags or {}) do
    tally_dag(root, now, dag, by, how.events)
  end
end
