-- Writes down what a new task is expected and allowed to cost, "<estimate>:<most>".
local function write_price(key, price)
  redis.call("HSET", key, "price", price, "flags", (redis.call("HGET", key, "flags") or "") .. "c")
end
