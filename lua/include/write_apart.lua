-- Writes down what sets a new task apart from those of its lane: its key, and its price. One that
-- is `plain` otherwise has no flags yet.
local function write_apart(key, place, plain)
  if place.key then
    redis.call("HSET", key, "key", place.key)
  end
  if place.kind.price ~= "" then
    local flags = not plain and redis.call("HGET", key, "flags") or ""
    redis.call("HSET", key, "price", place.kind.price, "flags", flags .. "c")
  end
end
