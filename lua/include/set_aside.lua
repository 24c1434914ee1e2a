-- @include dag_of
-- Adds what a task is expected to cost, by its row, to the `sums` of the accounts that pay it, and
-- returns what is kept with it: "<micro-USD>", and its worker where that has an account. What is
-- the same for all tasks of a call, or of a price, is found out once.
local function set_aside(root, row, who, sums)
  if who.account == nil then
    local account = "budget:worker=" .. who.consumer
    who.account = redis.call("EXISTS", root .. account) == 1 and account
    who.kept = {}
  end
  local kept = who.kept[row[8]]
  if not kept then
    local text = string.match(row[8], "^%d+") or "0"
    kept = { tonumber(text), who.account and text .. " " .. who.consumer or text }
    who.kept[row[8]] = kept
  end
  local dag, price = dag_of(row[3]), kept[1]
  sums["budget:day"] = (sums["budget:day"] or 0) + price
  if who.account then
    sums[who.account] = (sums[who.account] or 0) + price
  end
  if dag then
    sums["dag:" .. dag] = (sums["dag:" .. dag] or 0) + price
  end
  return kept[2]
end
