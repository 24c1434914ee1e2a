-- @include emit
-- Says once of each account that has kept something from being handed out that it is used up:
-- while nothing is set aside for tasks in hand, no end of theirs gives anything back. A hundred
-- accounts in a call. It is said again after the account was raised, or on another day.
local function tell_short(root, events)
  for _, account in ipairs(redis.call("SRANDMEMBER", root .. "short", 100)) do
    local dag = not (account == "day" or string.find(account, "^worker="))
    local key = root .. (dag and "dag:" or "budget:") .. account
    local row = redis.call("HMGET", key, "reserved", "told")
    if not row[2] and tonumber(row[1] or "0") <= 0 and redis.call("EXISTS", key) == 1 then
      redis.call("HSET", key, "told", 1)
      emit(root, events, "budget.exhausted", dag and account or "", dag and "dag" or account)
    end
  end
end
