-- Writes down what sets a new task apart from those of its lane: its key, and its price.
local function write_apart(key, place)
  if place.key then
    redis.call("HSET", key, "key", place.key)
  end
  if place.kind.price ~= "" then
    local flags = redis.call("HGET", key, "flags") or ""
    redis.call("HSET", key, "price", place.kind.price, "flags", flags .. "c")
  end
end
