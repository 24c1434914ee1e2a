-- Of the parents named, by id or as "@<sha>" of a caller's own id: those not yet completed, or
-- nil and the one that can never complete.
local function open_parents(root, parents, here)
  local open = {}
  for _, parent in ipairs(parents) do
    local id = parent
    if string.sub(parent, 1, 1) == "@" then
      id = redis.call("GET", root .. "ext:" .. string.sub(parent, 2)) or parent
    end
    local state = here[id] and "PENDING" or redis.call("HGET", root .. "task:" .. id, "state")
    if not state or state == "CANCELLED" then
      return nil, id
    end
    if state ~= "COMPLETED" then
      open[#open + 1] = id
    end
  end
  return open
end
