-- @include free_entry
-- @include handoff
-- @include count
-- @include let_in
-- A held task leaves the hand and waits in `delayed` until `due`. `fields` go into its hash.
local function retry_later(root, id, row, due, fields)
  local key, lane, entry = root .. "task:" .. id, row[3], row[4]
  free_entry(root, entry)
  redis.call("ZREM", root .. "handoffs", handoff(id, row[2]))
  -- The entry says when the task was created until there is another entry.
  redis.call("HSETNX", key, "created", string.match(entry, "^%d+"))
  redis.call("HSET", key, "state", "RETRYING", "due", due, unpack(fields))
  redis.call("HDEL", key, "entry")
  redis.call("ZADD", root .. "delayed", due, id)
  count(root, lane, row[1], -1)
  let_in(root, id, lane)
  count(root, lane, "RETRYING", 1)
end
