-- @include kept_parents
-- @include open_parents
-- @include reaches
-- What a dead task waits for when it lives again; or why it cannot: a parent can never be met, or
-- waits in turn for the task itself, through whatever chain that came up since it died, or there is
-- too much to follow. Of more than a `page` of parents none is looked at, which is said third.
local function waits_again(root, task, trigger, steps, page)
  local kept, walk = kept_parents(root, task), { seen = {}, left = steps }
  if #kept > page then
    local circle = reaches(root, kept, task, walk)
    return {}, circle and { circle, task }, true
  end
  local open, lost = open_parents(root, kept, trigger)
  if not open then
    return nil, { "PARENT", lost }
  end
  local circle = reaches(root, open, task, walk)
  return open, circle and { circle, task }
end
