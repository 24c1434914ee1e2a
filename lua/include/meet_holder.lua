-- @include holder_rule
-- @include debounce_holder
-- @include is_among
-- A new task's key belongs to a task: what the new one is answered, nil where it replaces that one.
local function meet_holder(root, now, holder, row, new, ask, parents, due)
  local rule = holder_rule(root, holder, row, new, ask, parents)
  if rule == "debounce" then
    debounce_holder(root, now, holder, row, new, due)
  end
  if rule ~= "replace" then
    return "EXISTS"
  end
  return is_among(parents, holder) and "PARENT" or nil
end
