-- @include bring_back rarely
-- @include touch_type rarely
-- An account that ran short has money again: what its DAG could not pay returns to its lanes, not
-- more than `how.back` tasks in a call, whatever the number of DAGs; the promoter goes on with the
-- rest. For a worker's and the day's all lanes are looked at. `how.touched` collects the lanes. An
-- account that has something left to pay stays among those that ran short.
local function heed_refund(root, account, how)
  if account == "day" or string.find(account, "^worker=") then
    redis.call("SREM", root .. "short", account)
    return touch_type(root, "*", how.touched)
  end
  local more, seen = how.back <= 0, 0
  if not more then
    more, seen = bring_back(root, account, how.back, how)
  end
  -- One of which nothing can be paid was looked at, too.
  how.back = how.back - math.max(1, seen)
  if more then
    redis.call("ZADD", root .. "wakes", 0, "$" .. account)
  end
  if redis.call("EXISTS", root .. "unpaid:" .. account) == 0 then
    redis.call("SREM", root .. "short", account)
  end
end
