-- When closed gates open, and which waiting claims are answered then.

-- Processes the entries of `wakes` that are due, at most `most`: adds the lanes of types and
-- tenants whose gates open to `how.touched`, and returns the tasks of accounts ("$<account>") that
-- have money again, no more tasks of DAGs than `how.back`. Returns whether there may be more.
function wake.due(root, now, how, most)
  local wakes = root .. "wakes"
  -- The latest first: these are gates, which many DAGs before them must not delay.
  local due = redis.call("ZREVRANGEBYSCORE", wakes, now, "-inf", "LIMIT", 0, most)
  for _, what in ipairs(due) do
    local account = string.match(what, "^%$(.+)$")
    if account and how.back <= 0 then
      return true
    end
    redis.call("ZREM", wakes, what)
    if account then
      accounts.refunded(root, account, how)
    elseif tasks.has_tenant(what) then
      tenants.schedule_wake(root, now, what)
      how.touched[what] = true
    else
      lanes.touch_type(root, what, how.touched)
    end
  end
  return #due == tonumber(most)
end

-- When the next gate opens after `now`, as text; nil where none opens by itself. Called after
-- waiting claims were answered: a claim that takes the last place at a gate writes when the next is
-- free.
function wake.next_at(root, now)
  return redis.call("ZRANGEBYSCORE", root .. "wakes", "(" .. now, "+inf", "WITHSCORES",
    "LIMIT", 0, 1)[2]
end

-- Handles a leased task that leaves its lease other than completed: what was reserved and not spent
-- is refunded. Where a concurrency limit was reached, an account was short, or the task was the
-- probe of a breaker, waiting claims are answered at the end of the call, see answer.freed, or by
-- the promoter. Completions do this themselves, see complete.many.
function wake.left_running(root, id, lane)
  local key = root .. "task:" .. id
  local row = redis.call("HMGET", key, "flags", "reserved", "token")
  if row[2] then
    redis.call("HDEL", key, "reserved")
    for _, account in ipairs(accounts.refund(root, { [row[1] or ""] = { [row[2]] = 1 } })) do
      redis.call("ZADD", root .. "wakes", 0, "$" .. account)
    end
  end
  if tasks.has_tenant(lane) then
    tenants.leave_running(root, { id })
  end
  if redis.call("EXISTS", root .. "crowded", root .. "breakers") > 0 then
    breaker.free_probe(root, id, row[3] or "", lane)
    for _, what in ipairs(redis.call("SMEMBERS", root .. "crowded")) do
      redis.call("ZADD", root .. "wakes", 0, what)
    end
    redis.call("DEL", root .. "crowded")
  end
end
