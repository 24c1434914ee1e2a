-- The parents that a task waited for when it died, as `keep_parents` noted them.
local function kept_parents(root, id)
  local parents = {}
  for parent in string.gmatch(redis.call("HGET", root .. "task:" .. id, "parents") or "", "%S+") do
    parents[#parents + 1] = parent
  end
  return parents
end
