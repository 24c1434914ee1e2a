-- Writes down what a new task is expected and allowed to cost, "<estimate>:<most>". One that is
-- `plain` otherwise has no flags yet.
local function write_price(key, price, plain)
  local flags = not plain and redis.call("HGET", key, "flags") or ""
  redis.call("HSET", key, "price", price, "flags", flags .. "c")
end
