-- @include flagged
-- Lets a task of a DAG wait for parents that were written before it, and notes in `children` who
-- is to be told of it. Many parents are also kept in a list, one alone needs no set. Returns how
-- many it did not wait for yet: none where this was sent before.
local function link_task(root, new, children)
  local alone = flagged(new.flags, "u")
  if new.sole and not alone then
    local list = children[new.above] or {}
    list[#list + 1], list[#list + 2] = 0, new.id
    children[new.above] = list
    return new.known and 0 or 1
  end
  local parents, trigger = {}, new.more and new.more.trigger
  for parent in string.gmatch(new.above, "%S+") do
    parents[#parents + 1] = parent
    if trigger then
      redis.call("HSET", root .. "heirs:" .. parent, new.id, trigger)
    elseif alone then
      redis.call("HSET", root .. "task:" .. parent, "down", new.id)
    else
      local list = children[parent] or {}
      list[#list + 1], list[#list + 2] = 0, new.id
      children[parent] = list
    end
  end
  if new.sole then
    return new.known and 0 or 1
  end
  local fresh = redis.call("SADD", root .. "waits:" .. new.id, unpack(parents))
  if fresh > 0 and (#new.above > 431 or new.known) then
    redis.call("RPUSH", root .. "parents:" .. new.id, unpack(parents))
  end
  return fresh
end
