-- Fetches the next tasks of a key, four times as many as the last time; whether there is any.
local function load_heads(root, lane, one)
  one.heads, one.pos = redis.call("ZRANGE", root .. "keyed:" .. lane.number .. ":" .. one.key,
    one.from, one.from + one.size - 1, "WITHSCORES"), 1
  one.from, one.size = one.from + one.size, one.size * 4
  one.empty = #one.heads == 0
  return not one.empty
end
