-- Takes a task off the lists of those it waits for, or is about to (`set` is "waits" or "gather"),
-- up to `limit` of them; how many that were.
local function leave_parents(root, id, set, limit)
  local parents = redis.call("SPOP", root .. set .. ":" .. id, limit)
  for _, parent in ipairs(parents) do
    if redis.call("ZREM", root .. "dependents:" .. parent, id) == 0 then
      redis.call("HDEL", root .. "heirs:" .. parent, id)
    end
  end
  return #parents
end
