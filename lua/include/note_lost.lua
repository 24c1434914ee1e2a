-- @include emit
-- Says that a lease was taken from a worker, and counts it in `lost`, which keeps their order.
local function note_lost(root, id, worker, lost, events)
  if not lost[worker] then
    lost[#lost + 1] = worker
  end
  lost[worker] = (lost[worker] or 0) + 1
  emit(root, events, "task.reaped", id, worker)
end
