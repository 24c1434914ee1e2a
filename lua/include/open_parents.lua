-- Of the parents named, by id or as "@<sha>" of a caller's own id: those not yet completed, or
-- nil and the one that can never complete. A caller's own id may look like ours.
local function open_parents(root, parents)
  local open = {}
  for _, parent in ipairs(parents) do
    local own, id = string.match(parent, "^@(.+)"), parent
    local function state_of()
      return redis.call("HGET", root .. "task:" .. id, "state")
    end
    local state = not own and state_of()
    if not state then
      id = redis.call("GET", root .. "ext:" .. (own or id)) or id
      state = state_of()
    end
    if not state or state == "CANCELLED" then
      return nil, id
    end
    if state ~= "COMPLETED" then
      open[#open + 1] = id
    end
  end
  return open
end
