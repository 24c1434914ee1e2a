-- Remembers that the account of a purse kept something from being handed out: who waits is answered
-- when one of its tasks leaves the hand, when it is raised, and a day's when the day is over.
local function run_short(root, now, purse)
  local account = purse.account
  purse.short = true
  redis.call("SADD", root .. "short", account)
  if account == "day" then
    redis.call("ZADD", root .. "wakes", "LT", (math.floor(now / 86400000) + 1) * 86400000, "$day")
  end
end
