-- @include dag_left
-- @include dag_shut
-- @include hold_task
-- @include enter_lane
-- @include price_of
-- Puts tasks back into their lanes that their DAG could not pay and can now, the cheapest first
-- and so many. `how.touched` collects the lanes. Returns whether more of them may be paid, and how
-- many it looked at.
local function bring_back(root, dag, limit, how)
  local unpaid, left = root .. "unpaid:" .. dag, dag_left(root, dag) or math.huge
  local page = left < 0 and {} or redis.call("ZRANGEBYSCORE", unpaid, "-inf",
    left == math.huge and "+inf" or string.format("%.0f", left), "LIMIT", 0, limit)
  for at, id in ipairs(page) do
    local row = redis.call("HMGET", root .. "task:" .. id, "state", "lane", "score", "flags")
    local price = price_of(root, id)
    if row[1] == "READY" and price > left then
      return false, at
    end
    redis.call("ZREM", unpaid, id)
    if row[1] == "READY" then
      left = left - price
      redis.call("HINCRBY", root .. "stats", row[2] .. ":READY", -1)
      if dag_shut(root, row[4], how) then
        hold_task(root, dag, id, row[2])
      else
        enter_lane(root, row[2], { row[3], id })
        how.touched[row[2]] = true
      end
    end
  end
  return #page == limit, #page
end
