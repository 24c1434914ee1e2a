-- Tasks that may only run with nothing beside them in their worker.

-- Whether a lane's task that runs alone may be picked after `picked` others: "run" where the hands
-- are empty; "drain" where this worker keeps them free for it from now on; "skip" where another
-- one does. Without draining, a worker that always holds something would never come to it.
function exclusive.verdict(root, now, lane, picked, who)
  if who.solo and picked == 0 then
    redis.call("HDEL", root .. "draining", lane.number)
    return "run"
  end
  local by = exclusive.reserved_by(root, now, lane.number)
  if by and by ~= who.consumer then
    return "skip"
  end
  redis.call("HSET", root .. "draining", lane.number, now + lane.exclusive_ms .. " " .. who.consumer)
  return "drain"
end

-- The worker that keeps its hands free for a lane's task that runs alone, if one does now.
function exclusive.reserved_by(root, now, number)
  local kept, by = string.match(redis.call("HGET", root .. "draining", number) or "",
    "^(%d+) (.+)$")
  return kept and tonumber(kept) > now and by or nil
end

-- What the consumer has in hand that bears on a claim: "alone" while it runs a task that must
-- run alone, "none" while it holds nothing, else "some".
function exclusive.state_of(root, consumer)
  local worker = root .. "worker:" .. consumer
  local id = redis.call("HGET", worker, "alone")
  if id then
    local row = redis.call("HMGET", root .. "task:" .. id, "state", "holder")
    local in_hand = row[1] == "CLAIMED" or row[1] == "RUNNING" or row[1] == "VALIDATING"
    if in_hand and select(3, tasks.split_holder(row[2])) == consumer then
      return "alone"
    end
    redis.call("HDEL", worker, "alone")
  end
  local held = redis.pcall("XPENDING", root .. "ready", "workers", "-", "+", 1, consumer)
  return (held.err or #held == 0) and "none" or "some"
end
