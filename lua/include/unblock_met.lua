-- @include unblock_task
-- Unblocks those whose parents `note_met` has noted, each once for all of them.
local function unblock_met(root, how)
  for _, child in ipairs(how.order) do
    unblock_task(root, child, how.met[child], how)
  end
  how.met, how.order = {}, {}
end
