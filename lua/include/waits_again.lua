-- @include kept_parents
-- @include open_parents
-- @include reaches
-- What a dead task waits for when it lives again; or why it cannot: a parent can never be met, or
-- waits in turn for the task itself, through whatever chain that came up since it died.
local function waits_again(root, task, trigger, steps)
  local open, lost = open_parents(root, kept_parents(root, task), trigger)
  if not open then
    return nil, { "PARENT", lost }
  end
  local circle = reaches(root, open, task, { seen = {}, left = tonumber(steps) })
  return open, circle and { "CYCLE", task } or nil
end
