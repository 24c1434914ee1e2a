-- @include mend_edge
-- @include waits_of
-- Looks at up to `limit` of the parents that a PENDING task waits for, any of them: each must know
-- it, and one that has ended must be about to tell it. Whether anything was missing.
local function mend_parents(root, id, limit)
  local mended, kind = false, decoded(redis.call("HGET", root .. "task:" .. id, "more")).trigger
  local sole = redis.call("EXISTS", root .. "waits:" .. id) == 0 and waits_of(root, id)
  for _, parent in ipairs(sole or redis.call("SRANDMEMBER", root .. "waits:" .. id, limit)) do
    local state = redis.call("HGET", root .. "task:" .. parent, "state")
    if state and mend_edge(root, parent, id, kind, state == "COMPLETED") then
      mended = true
    end
    if redis.call("HEXISTS", root .. "heirs:" .. parent, id) == 1 then
      local ended = state == "COMPLETED" or state == "CANCELLED" or state == "DEAD_LETTERED"
      mended = ended and redis.call("SADD", root .. "telling", parent) == 1 or mended
    elseif state == "COMPLETED" then
      mended = redis.call("SADD", root .. "unblocking", parent) == 1 or mended
    elseif state == "CANCELLED" then
      mended = redis.call("HSETNX", root .. "cancelling", "children " .. parent,
        "cascade cancelled") == 1 or mended
    end
  end
  return mended
end
