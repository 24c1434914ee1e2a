-- @include note_met
-- Notes in `how` for each dependent that a parent is met, as many as it has left, see unblock_met.
-- What is left stays there, and the parent in `unblocking`: the next call goes on. Whether
-- all were told.
local function unblock_dependents(root, parent, how)
  local dependents = root .. "dependents:" .. parent
  -- In the order of their ids, as they are claimed: the stream is then freed from its head.
  local children = how.left > 0 and redis.call("ZRANGE", dependents, 0, how.left - 1) or {}
  for _, child in ipairs(children) do
    note_met(how, child, parent)
  end
  if #children > 0 then
    redis.call("ZREMRANGEBYRANK", dependents, 0, #children - 1)
  end
  how.left = how.left - #children
  if how.left > 0 or redis.call("EXISTS", dependents) == 0 then
    return true
  end
  how.unfinished = true
  redis.call("SADD", root .. "unblocking", parent)
  return false
end
