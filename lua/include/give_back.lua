-- @include handoff
-- @include count
-- @include let_in
-- A held task becomes READY again, free of charge, at its old place. Returns its lane.
local function give_back(root, id, row, settled)
  local key, lane = root .. "task:" .. id, row[3]
  redis.call("XACK", root .. "ready", "workers", row[4])
  redis.call("ZREM", root .. "handoffs", handoff(id, row[2]))
  redis.call("HSET", key, "state", "READY", "settled", settled)
  redis.call("ZADD", root .. "lane:" .. lane, redis.call("HGET", key, "score"), id)
  count(root, lane, row[1], -1)
  let_in(root)
  return lane
end
