-- @include flagged
-- A task begins a new life after `life`: what it has cost so far, and what runs that it has lost
-- say later, see settle_debt, is not the new one's. Each of them is marked with its life.
local function close_costs(root, id, flags, life)
  local key, notes = root .. "task:" .. id, root .. "notes:" .. id
  if flagged(flags, "n") then
    local said = redis.call("HMGET", notes, "micro_usd", "tokens_in", "tokens_out")
    redis.call("HSET", notes, "before", said[1] or 0, "before_in", said[2] or 0,
      "before_out", said[3] or 0)
    redis.call("HDEL", notes, "late", "late_in", "late_out")
  end
  local owed = redis.call("HGET", key, "owed")
  if owed then
    local mark = string.format("\n%%1*%.0f ", life)
    owed = string.gsub("\n" .. owed, "\n(%S+ %d+) ", mark)
    redis.call("HSET", key, "owed", string.sub(owed, 2))
  end
end
