-- @include note_met
-- Notes in `how` for the one dependent that a parent names in its hash that it is met. Where the
-- parent was dead before, that one may have been given up, and is named no more.
local function unblock_only(root, parent, how)
  local child = redis.call("HGET", root .. "task:" .. parent, "down")
  if child then
    note_met(how, child, parent)
  end
end
