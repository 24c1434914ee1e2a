-- @include free_entry
-- @include let_in
-- @include drop_from_lane
-- @include handoff
-- @include unhold_task
-- @include leave_each
-- @include waits_of
-- Takes a live task out of every index that its state names; its hash is the caller's.
local function leave_indexes(root, id, state, lane, entry, token)
  if state == "READY" then
    if drop_from_lane(root, lane, id) == 0 then
      unhold_task(root, id, lane)
    end
    free_entry(root, entry)
  elseif state == "PENDING" or state == "CREATED" then
    local waits = root .. "waits:" .. id
    -- Many would take too long: they pass over one that waits no more.
    if redis.call("SCARD", waits) <= 16 then
      leave_each(root, id, waits_of(root, id))
    end
    redis.call("ZREM", root .. "blocked", id)
    redis.call("ZREM", root .. "delayed", id)
    redis.call("DEL", waits)
    redis.call("HDEL", root .. "task:" .. id, "sole")
  elseif state == "RETRYING" then
    redis.call("ZREM", root .. "delayed", id)
  else
    free_entry(root, entry)
    redis.call("ZREM", root .. "handoffs", handoff(id, token))
    let_in(root, id, lane)
  end
end
