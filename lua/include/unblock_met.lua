-- @include unblock_task
-- Unblocks those whose parents `unblock_dependents` has met, each once for all of them.
local function unblock_met(root, how)
  for _, child in ipairs(how.order) do
    local parents = how.met[child]
    if #parents > 1 then
      redis.call("SREM", root .. "waits:" .. child, unpack(parents))
    end
    unblock_task(root, child, parents[1], how)
  end
  how.met, how.order = {}, {}
end
