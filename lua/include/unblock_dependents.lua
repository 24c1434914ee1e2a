-- Notes in `how` for each dependent that a parent is met, as many as it has left, see unblock_met.
-- What is left stays there, and the parent in `unblocking`: the next call goes on. Whether
-- all were told.
local function unblock_dependents(root, parent, how)
  local dependents = root .. "dependents:" .. parent
  -- In the order of their ids, as they are claimed: the stream is then freed from its head.
  local children = how.left > 0 and redis.call("ZPOPMIN", dependents, how.left) or {}
  for i = 1, #children, 2 do
    local child = children[i]
    local met = how.met[child]
    if met then
      met[#met + 1] = parent
    else
      how.met[child] = { parent }
      how.order[#how.order + 1] = child
    end
  end
  how.left = how.left - #children / 2
  if how.left > 0 or redis.call("EXISTS", dependents) == 0 then
    return true
  end
  how.unfinished = true
  redis.call("SADD", root .. "unblocking", parent)
  return false
end
