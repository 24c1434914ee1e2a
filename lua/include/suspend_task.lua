-- @include owe
-- @include free_entry
-- @include handoff
-- @include block_task
-- @include wait_task
-- @include count
-- @include let_in
-- A RUNNING task leaves its worker's hands until tasks that it spawned have ended: no attempt is
-- spent. `row` is state, token, lane, entry, flags.
local function suspend_task(root, now, id, row, children, trigger)
  local key, lane, entry = root .. "task:" .. id, row[3], row[4]
  owe(root, id, row[2])
  free_entry(root, entry)
  redis.call("ZREM", root .. "handoffs", handoff(id, row[2]))
  -- The entry says when the task was created until there is another entry.
  redis.call("HSETNX", key, "created", string.match(entry, "^%d+"))
  redis.call("HSET", key, "state", "PENDING", "suspended", 1, "settled", "suspend " .. row[2])
  redis.call("HDEL", key, "entry")
  block_task(root, id, children, nil, trigger)
  wait_task(root, now, id)
  count(root, lane, row[1], -1)
  let_in(root, id, lane)
  count(root, lane, "PENDING", 1)
end
