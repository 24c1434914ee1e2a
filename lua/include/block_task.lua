-- @include flag
-- Writes down what a waiting task waits for: parents, and "@time" until `due`. By its `trigger` the
-- parents must complete, or only end: those who wait for that are their heirs.
local function block_task(root, id, parents, due, trigger)
  local waits = root .. "waits:" .. id
  for _, parent in ipairs(parents) do
    redis.call("SADD", waits, parent)
    if trigger then
      redis.call("HSET", root .. "heirs:" .. parent, id, trigger)
      flag(root, parent, "h")
    else
      redis.call("ZADD", root .. "dependents:" .. parent, 0, id)
      flag(root, parent, "d")
    end
  end
  if due then
    redis.call("SADD", waits, "@time")
  end
end
