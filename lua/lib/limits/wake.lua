-- When closed gates open, and who is answered then.

-- Notes in `how.touched` the lanes of the types and keys whose gates open by now, the lanes of keys
-- that have some whose time has come, and for "$<account>" what waits for money: `most` of them,
-- and no more tasks of DAGs than `how.back`. What is left is for the next call: whether there may
-- be something.
function wake.due(root, now, how, most)
  local wakes = root .. "wakes"
  -- The last first: those are gates, which must not wait for a thousand DAGs before them.
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

-- When the next gate opens, after `now`, as text; nil where none does by itself. To be asked after
-- parked claims were answered: who takes the last place at a gate notes when there is another.
function wake.next_at(root, now)
  return redis.call("ZRANGEBYSCORE", root .. "wakes", "(" .. now, "+inf", "WITHSCORES",
    "LIMIT", 0, 1)[2]
end

-- A task leaves the hand other than completed: what was set aside for it and not spent is given
-- back. Where somebody found a limit of those at once used up, or an account short, or it was this
-- that tried a breaker, who waits is answered at the end of the call, see answer_freed, or by the
-- promoter. A completion does that by itself, see heed_success and leave_hands.
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
