-- @include free_entry
-- @include handoff
-- Takes a live task out of every index that its state names; its hash is the caller's.
local function leave_indexes(root, id, state, lane, entry, token)
  if state == "READY" then
    redis.call("ZREM", root .. "lane:" .. lane, id)
    free_entry(root, entry)
  elseif state == "PENDING" then
    for _, parent in ipairs(redis.call("SMEMBERS", root .. "waits:" .. id)) do
      redis.call("SREM", root .. "dependents:" .. parent, id)
    end
    redis.call("ZREM", root .. "blocked", id)
    redis.call("ZREM", root .. "delayed", id)
    redis.call("DEL", root .. "waits:" .. id)
  elseif state == "RETRYING" then
    redis.call("ZREM", root .. "delayed", id)
  else
    free_entry(root, entry)
    redis.call("ZREM", root .. "handoffs", handoff(id, token))
  end
end
