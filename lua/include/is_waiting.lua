-- Whether a state is one in which nobody holds the task and it may still run.
local function is_waiting(state)
  return state == "READY" or state == "PENDING" or state == "RETRYING"
end
