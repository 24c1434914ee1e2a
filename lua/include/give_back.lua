-- @include handoff
-- @include count
-- @include let_in
-- @include enter_lane
-- @include dag_shut
-- @include hold_task rarely
-- A held task becomes READY again, free of charge, at its old place; it is held back
-- where its DAG is. `how.touched` collects the lanes. `row` is state, token, lane, entry, flags.
local function give_back(root, id, row, settled, how)
  local key, lane = root .. "task:" .. id, row[3]
  redis.call("XACK", root .. "ready", "workers", row[4])
  redis.call("ZREM", root .. "handoffs", handoff(id, row[2]))
  redis.call("HSET", key, "state", "READY", "settled", settled)
  count(root, lane, row[1], -1)
  let_in(root, id, lane)
  local dag = row[5] and dag_shut(root, row[5], how)
  if dag then
    return hold_task(root, dag, id, lane)
  end
  enter_lane(root, lane, { redis.call("HGET", key, "score"), id })
  how.touched[lane] = true
end
