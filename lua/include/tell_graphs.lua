-- @include tally_dags
-- @include unblock_met
-- @include enter_indexes
-- @include emit_ready
-- What completions mean for DAGs and for those who waited, as `how` has collected it.
local function tell_graphs(root, now, how)
  tally_dags(root, now, how)
  unblock_met(root, how)
  enter_indexes(root, how)
  emit_ready(root, how.events, how.readied)
end
