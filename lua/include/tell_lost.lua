-- @include emit
-- Of the workers that leases were taken from, says which are lost: nothing was heard of them
-- `since`. One that was is only slow, or there again.
local function tell_lost(root, since, lost, events)
  for _, worker in ipairs(lost) do
    local seen = redis.call("ZSCORE", root .. "workers", worker)
    if not seen or tonumber(seen) <= since then
      emit(root, events, "worker.lost", worker, lost[worker])
    end
  end
end
