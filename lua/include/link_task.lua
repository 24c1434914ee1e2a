-- @include flagged
-- @include add_child
-- Lets a task of a DAG wait for parents that were written before it, and notes in `children` who
-- is to know of it; those whose one dependent it is name it already. Many parents are also kept in
-- a list, one alone needs no set. Returns how many it did not wait for yet: none where this was
-- sent before.
local function link_task(root, new, children)
  local alone = flagged(new.flags, "u")
  if new.sole then
    if not alone then
      add_child(children, new.above, new.id)
    end
    return new.known and 0 or 1
  end
  local parents, trigger = {}, new.more and new.more.trigger
  for parent in string.gmatch(new.above, "%S+") do
    parents[#parents + 1] = parent
    if trigger then
      redis.call("HSET", root .. "heirs:" .. parent, new.id, trigger)
    elseif not alone then
      add_child(children, parent, new.id)
    end
  end
  local fresh = redis.call("SADD", root .. "waits:" .. new.id, unpack(parents))
  if fresh > 0 and (#new.above > 431 or new.known) then
    redis.call("RPUSH", root .. "parents:" .. new.id, unpack(parents))
  end
  return fresh
end
