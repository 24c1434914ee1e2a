-- @include price_of
-- @include dag_of
-- Sets aside what tasks that were just handed out are expected to cost: with the day, with their
-- DAGs, and with the worker where that has an account. `priced` are { id, flags }.
local function reserve(root, priced, consumer)
  local account, sum, dags = root .. "budget:worker=" .. consumer, 0, {}
  local own = redis.call("EXISTS", account) == 1
  for _, one in ipairs(priced) do
    local id, dag = one[1], dag_of(one[2])
    local price = price_of(root, id)
    redis.call("HSET", root .. "task:" .. id, "reserved",
      string.format(own and "%.0f w" or "%.0f", price))
    sum = sum + price
    if dag then
      dags[dag] = (dags[dag] or 0) + price
    end
  end
  redis.call("HINCRBY", root .. "budget:day", "reserved", string.format("%.0f", sum))
  if own then
    redis.call("HINCRBY", account, "reserved", string.format("%.0f", sum))
  end
  for dag, price in pairs(dags) do
    redis.call("HINCRBY", root .. "dag:" .. dag, "reserved", string.format("%.0f", price))
  end
end
