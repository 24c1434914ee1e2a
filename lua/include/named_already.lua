-- The task that bears a caller's own id already and is neither dead, cancelled nor `replaced`.
local function named_already(root, ext, replaced)
  local known = ext and redis.call("GET", root .. "ext:" .. ext)
  local state = known and known ~= replaced
    and redis.call("HGET", root .. "task:" .. known, "state")
  return state and state ~= "DEAD_LETTERED" and state ~= "CANCELLED" and known or nil
end
