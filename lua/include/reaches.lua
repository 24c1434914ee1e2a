-- @include edges_of
-- Whether one of the tasks in `from` waits for `target`, through whatever chain: "CYCLE", or "FAR"
-- where more edges than `walk.left` must be followed to find out, those to `from` among them; nil
-- where none does. What one walk has seen, the next one of the same call passes over.
local function reaches(root, from, target, walk)
  local stack, key = {}, root .. "dependents:" .. target
  -- Mostly nobody waits for it: then it can only be one of them itself.
  local awaited = redis.call("EXISTS", key, root .. "heirs:" .. target) > 0
    or redis.call("HEXISTS", root .. "task:" .. target, "down") == 1
  for i, id in ipairs(from) do
    stack[i] = id
  end
  walk.left = walk.left - (awaited and #from or 0)
  while #stack > 0 do
    local id = table.remove(stack)
    if id == target then
      return "CYCLE"
    elseif walk.left < 0 then
      return "FAR"
    elseif awaited and not walk.seen[id] then
      walk.seen[id] = true
      for _, parent in ipairs(edges_of(root, id)) do
        stack[#stack + 1] = parent
        walk.left = walk.left - 1
      end
    end
  end
  return nil
end
