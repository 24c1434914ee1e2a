-- Takes a task off the lists of these parents.
local function leave_each(root, id, parents)
  for _, parent in ipairs(parents) do
    if redis.call("ZREM", root .. "dependents:" .. parent, id) == 0 then
      redis.call("HDEL", root .. "heirs:" .. parent, id)
    end
  end
end
