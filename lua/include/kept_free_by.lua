-- The worker that keeps its hands free for a lane's task that runs alone, if one does now.
local function kept_free_by(root, now, number)
  local kept, by = string.match(redis.call("HGET", root .. "draining", number) or "",
    "^(%d+) (.+)$")
  return kept and tonumber(kept) > now and by or nil
end
