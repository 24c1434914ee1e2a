-- The member of `handoffs` that stands for this claim of the task.
local function handoff(id, token)
  return id .. ":" .. string.match(token, "^%d+")
end
