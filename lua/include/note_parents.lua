-- @include kept_parents
-- @include open_parents
-- @include tell_parents
-- @include told_parents
-- Lets a revived task wait for the next `limit` of its many parents, and these know of it, where
-- `unfinished` says that this is begun; until the last it waits for "@parents". Whether there are
-- more.
local function note_parents(root, id, row, limit, how)
  local unfinished, step = root .. "unfinished", "revive " .. id
  local at = tonumber(redis.call("HGET", unfinished, step))
  if not at or row.state ~= "PENDING" then
    redis.call("HDEL", unfinished, step)
    return false
  end
  local trigger = row.more.trigger
  local page, more = kept_parents(root, id, at, limit)
  local open, lost, fired = open_parents(root, page, trigger, true)
  if open and not fired then
    redis.call("SADD", root .. "waits:" .. id, "@parents", unpack(open))
    tell_parents(root, id, open, trigger)
    if more then
      redis.call("HSET", unfinished, step, at + limit)
      return true
    end
  end
  told_parents(root, id, trigger, not open and lost, fired, how)
  return false
end
