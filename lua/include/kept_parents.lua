-- The parents that a task waited for when it died, as `keep_parents` noted them: all, or a `limit`
-- of them from `at` on; and whether there are more.
local function kept_parents(root, id, at, limit)
  local kept, parents = redis.call("HGET", root .. "task:" .. id, "parents") or "", {}
  -- An id is 26 letters, and a space stands between two.
  local to = limit and 27 * (at + limit) or #kept
  for parent in string.gmatch(string.sub(kept, 27 * (at or 0) + 1, to), "%S+") do
    parents[#parents + 1] = parent
  end
  return parents, #kept > to
end
