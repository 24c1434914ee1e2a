-- @include emit
-- @include dag_left
-- Looks at accounts that have kept something from being handed out, a hundred in a call. Where a
-- DAG can pay something of it after all, that returns; else it is said once that the account is
-- used up, while nothing is set aside for tasks in hand: then no end of theirs gives anything
-- back. It is said again after the account was raised, or on another day.
local function tell_short(root, events)
  for _, account in ipairs(redis.call("SRANDMEMBER", root .. "short", 100)) do
    local dag = not (account == "day" or string.find(account, "^worker="))
    local key = root .. (dag and "dag:" or "budget:") .. account
    local row = redis.call("HMGET", key, "reserved", "told")
    local first = dag and redis.call("ZRANGE", root .. "unpaid:" .. account, 0, 0, "WITHSCORES")
    if dag and not first[1] then
      redis.call("SREM", root .. "short", account)
    elseif dag and tonumber(first[2]) <= (dag_left(root, account) or math.huge) then
      redis.call("ZADD", root .. "wakes", 0, "$" .. account)
    elseif not row[2] and tonumber(row[1] or "0") <= 0 then
      redis.call("HSET", key, "told", 1)
      local kind = dag and "dag" or string.match(account, "^%a+")
      emit(root, events, "budget.exhausted", account, kind)
    end
  end
end
