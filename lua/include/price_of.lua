-- What a task is expected to cost, and the most that it may, in micro-USD; 0 for no limit. A task
-- that says neither is expected to cost nothing.
local function price_of(root, id)
  local price = redis.call("HGET", root .. "task:" .. id, "price")
  local estimate, most = string.match(price or "0:0", "^(%d+):(%d+)$")
  return tonumber(estimate or 0), tonumber(most or 0)
end
