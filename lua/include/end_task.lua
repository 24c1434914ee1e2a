-- @include dag_of
-- @include free_key
-- @include forget_later
-- @include tell_watchers
-- @include count
-- What every ending that is not a completion has in common, after the indexes are left: the
-- hash, the key given up, who waited, the keys' expiry, which for a task of a DAG waits for the
-- end of all. `row` is { state, lane, flags, more }.
local function end_task(root, id, row, state, ttl, fields)
  redis.call("HSET", root .. "task:" .. id, "state", state, unpack(fields))
  redis.call("ZREM", root .. "deadlines", id)
  free_key(root, id, row.more)
  count(root, row.lane, row.state, -1)
  count(root, row.lane, state, 1)
  tell_watchers(root, id, row.flags)
  if ttl and not dag_of(row.flags) then
    forget_later(root, id, ttl, row.flags, row.more)
  end
end
