-- @include day_of
-- What is left of an account, "day" or "worker=<name>", in micro-USD: its ceiling less what was
-- spent and what is set aside for tasks in hand; nil where it has no ceiling. What was spent on
-- another day than this counts no more.
local function left_of(root, now, account)
  local row = redis.call("HMGET", root .. "budget:" .. account, "ceiling", "spent", "reserved",
    "date")
  if not row[1] then
    return nil
  end
  local past = account == "day" and row[4] ~= day_of(now)
  return row[1] - (past and 0 or row[2] or 0) - (row[3] or 0)
end
