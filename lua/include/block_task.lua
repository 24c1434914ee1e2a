-- @include flag
-- Writes down what a PENDING task waits for: parents, and "@time" until `due`.
local function block_task(root, now, id, parents, due)
  local waits = root .. "waits:" .. id
  for _, parent in ipairs(parents) do
    redis.call("SADD", waits, parent)
    redis.call("SADD", root .. "dependents:" .. parent, id)
    flag(root, parent, "d")
  end
  if due then
    redis.call("SADD", waits, "@time")
    redis.call("ZADD", root .. "delayed", due, id)
  end
  redis.call("ZADD", root .. "blocked", now, id)
end
