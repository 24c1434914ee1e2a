-- @include more_of
-- @include free_key
-- @include handoff
-- @include holder_of
-- @include lease_entries
-- @include count
-- Begins the execution of a held task that is CLAIMED. `row` is state, token, lane, entry, flags;
-- `now` is text.
local function start_task(root, now, id, token, row)
  local key = root .. "task:" .. id
  redis.call("ZREM", root .. "handoffs", handoff(id, token))
  local claimed, _, owner = holder_of(redis.call("HGET", key, "holder"))
  redis.call("HSET", key, "state", "RUNNING", "holder", claimed .. " " .. now .. " " .. owner)
  lease_entries(root, owner, { row[4] })
  count(root, row[3], "CLAIMED", -1)
  count(root, row[3], "RUNNING", 1)
  local more = more_of(root, id, row[5])
  if more.unique == "until_start" then
    free_key(root, id, more)
  end
end
