-- @include holder_of
-- What the consumer has in hand that bears on a claim: "alone" while it runs a task that must
-- run alone, "none" while it holds nothing, else "some".
local function hands(root, consumer)
  local worker = root .. "worker:" .. consumer
  local id = redis.call("HGET", worker, "alone")
  if id then
    local row = redis.call("HMGET", root .. "task:" .. id, "state", "holder")
    local in_hand = row[1] == "CLAIMED" or row[1] == "RUNNING" or row[1] == "VALIDATING"
    if in_hand and select(3, holder_of(row[2])) == consumer then
      return "alone"
    end
    redis.call("HDEL", worker, "alone")
  end
  local held = redis.pcall("XPENDING", root .. "ready", "workers", "-", "+", 1, consumer)
  return (held.err or #held == 0) and "none" or "some"
end
