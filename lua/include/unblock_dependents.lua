-- @include unblock_task
-- Tells up to `limit` dependents that a parent is met; `touched` collects the lanes they enter.
-- What is left stays in the set, and the parent in `unblocking`, for the promoter to go on.
local function unblock_dependents(root, parent, limit, touched)
  local dependents = root .. "dependents:" .. parent
  for _, child in ipairs(redis.call("SPOP", dependents, limit)) do
    local lane = unblock_task(root, child, parent)
    if lane then
      touched[lane] = true
    end
  end
  if redis.call("SCARD", dependents) > 0 then
    redis.call("SADD", root .. "unblocking", parent)
  else
    redis.call("SREM", root .. "unblocking", parent)
  end
end
