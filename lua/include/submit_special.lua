-- @include task_row
-- @include meet_holder
-- @include open_parents
-- @include replace_holder
-- @include write_special
-- @include lane_number
-- @include named_already
-- @include due_of
-- A task with a key, a delay, parents, tags or a deadline. Nothing is written unless it is taken.
-- Returns nil when the caller shall make it READY, else a word and its detail.
local function submit_special(root, now, new)
  local more, ask = decoded(new.more), decoded(new.ask)
  local parents, lost = open_parents(root, ask.parents or {}, more.trigger)
  if not parents then
    return "PARENT", lost
  end
  local due = due_of(ask, now)
  local holder = more.idem and redis.call("GET", root .. "idem:" .. more.idem)
  local row = holder and task_row(root, holder)
  local met = holder and meet_holder(root, now, holder, row, new, ask, parents, due)
  if met then
    return met, holder
  end
  local known = named_already(root, more.ext, holder)
  if known then
    return "EXISTS", known
  end
  local lane = lane_number(root, new.kind, new.max_lanes, now)
  if not lane then
    return "LANES", ""
  end
  if holder then
    replace_holder(root, now, holder, row, new)
  end
  return write_special(root, now, new, lane, more, parents, due)
end
