-- Exclusive tasks: a worker runs one only while it holds no other lease.

-- Whether the exclusive task at the head of a lane can be picked after `picked` other tasks: "run"
-- when the worker holds nothing else; "drain" when it takes no further tasks, so that it can run
-- this one later; "skip" when another worker drains for it. Without draining, a worker that always
-- holds a lease would never run it.
function exclusive.verdict(root, now, lane, picked, claim)
  if claim.idle and picked == 0 then
    redis.call("HDEL", root .. "draining", lane.number)
    return "run"
  end
  local worker = exclusive.reserved_by(root, now, lane.number)
  if worker and worker ~= claim.consumer then
    return "skip"
  end
  redis.call("HSET", root .. "draining", lane.number,
    now + lane.exclusive_ms .. " " .. claim.consumer)
  return "drain"
end

-- The worker that currently drains for the exclusive task of a lane, or nil.
function exclusive.reserved_by(root, now, number)
  local until_ms, worker = string.match(redis.call("HGET", root .. "draining", number) or "",
    "^(%d+) (.+)$")
  return until_ms and tonumber(until_ms) > now and worker or nil
end

-- What a worker holds: "exclusive" while it runs an exclusive task, "none" without any lease, else
-- "some".
function exclusive.state_of(root, consumer)
  local worker = root .. "worker:" .. consumer
  local id = redis.call("HGET", worker, "alone")
  if id then
    local row = redis.call("HMGET", root .. "task:" .. id, "state", "holder")
    local is_leased = row[1] == "CLAIMED" or row[1] == "RUNNING" or row[1] == "VALIDATING"
    if is_leased and select(3, tasks.split_holder(row[2])) == consumer then
      return "exclusive"
    end
    redis.call("HDEL", worker, "alone")
  end
  local held = redis.pcall("XPENDING", root .. "ready", "workers", "-", "+", 1, consumer)
  return (held.err or #held == 0) and "none" or "some"
end
