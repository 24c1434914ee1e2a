-- @include price_of
-- @include left_of
-- @include dag_left
-- Adds to `found` the accounts that cannot pay a task now: its DAG's, and the day's until that is
-- over, unless no day can. Its `price` comes last, for who knows what its workers have left.
local function add_budgets(root, now, id, dag, found)
  local price = price_of(root, id)
  local left = dag and dag_left(root, dag)
  if left and price > left then
    found[#found + 1] = { "budget", "dag=" .. dag, "" }
  end
  left = left_of(root, now, "day")
  if left and price > left then
    local never = price > tonumber(redis.call("HGET", root .. "budget:day", "ceiling"))
    found[#found + 1] = { "budget", "day",
      never and "" or string.format("%.0f", (math.floor(now / 86400000) + 1) * 86400000) }
  end
  if price > 0 then
    found[#found + 1] = { "price", string.format("%.0f", price), "" }
  end
end
