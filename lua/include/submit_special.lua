-- @include is_waiting
-- @include task_row
-- @include debounce_holder
-- @include open_parents
-- @include replace_holder
-- @include write_special
-- @include lane_number
-- A task with a key, a delay, parents, tags or a deadline. Nothing is written unless it is taken.
-- Returns nil when the caller shall make it READY, else a word and its detail.
local function submit_special(root, now, new)
  local more, ask = decoded(new.more), decoded(new.ask)
  local parents, lost = open_parents(root, ask.parents or {})
  if not parents then
    return "PARENT", lost
  end
  local due = ask.at or (ask.delay and now + ask.delay)
  due = due and due > now and due or nil
  local holder = more.idem and redis.call("GET", root .. "idem:" .. more.idem)
  local row = holder and task_row(root, holder)
  if holder and not (ask.if_exists == "replace" and is_waiting(row.state)) then
    if ask.if_exists == "debounce" and is_waiting(row.state) then
      debounce_holder(root, now, holder, row, new.def, due)
    end
    return "EXISTS", holder
  end
  for _, parent in ipairs(holder and parents or {}) do
    if parent == holder then
      return "PARENT", holder
    end
  end
  local lane = lane_number(root, new.kind, new.max_lanes)
  if not lane then
    return "LANES", ""
  end
  if holder then
    replace_holder(root, now, holder, row, new)
  end
  return write_special(root, now, new, lane, more, parents, due)
end
