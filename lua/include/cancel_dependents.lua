-- @include flagged
-- @include unblock_dependents
-- What a cancelled task means for those that wait for it: added to `list` as { id, reason,
-- rule }, or unblocked.
local function cancel_dependents(root, id, flags, rule, list, touched, limit)
  if not flagged(flags, "d") then
    return
  end
  if rule == "unblock" then
    unblock_dependents(root, id, limit, touched)
    return
  end
  for _, child in ipairs(redis.call("SMEMBERS", root .. "dependents:" .. id)) do
    list[#list + 1] = { child, "Parent task_" .. id .. " cancelled", rule }
  end
end
