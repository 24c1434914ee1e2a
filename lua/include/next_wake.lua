-- When the next gate opens, after `now`, as text; nil where none does by itself. To be asked after
-- parked claims were answered: who takes the last place at a gate notes when there is another.
local function next_wake(root, now)
  return redis.call("ZRANGEBYSCORE", root .. "wakes", "(" .. now, "+inf", "WITHSCORES",
    "LIMIT", 0, 1)[2]
end
