-- @include tell_parents
-- Writes down what a waiting task waits for: parents, and "@time" until `due`.
local function block_task(root, id, parents, due, trigger)
  local waits = root .. "waits:" .. id
  for _, parent in ipairs(parents) do
    redis.call("SADD", waits, parent)
  end
  tell_parents(root, id, parents, trigger)
  if due then
    redis.call("SADD", waits, "@time")
  end
end
