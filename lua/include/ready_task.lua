-- Makes the task claimable: a fresh entry of the stream, its id in its lane by score.
local function ready_task(root, id, lane, score)
  local entry = redis.call("XADD", root .. "ready", "*", "task", id)
  redis.call("HSET", root .. "task:" .. id, "state", "READY", "entry", entry)
  redis.call("ZADD", root .. "lane:" .. lane, score, id)
end
