-- @include decoded
-- @include free_key
-- Drops a hash without a state: what a submit left that a crash tore apart. Its key and its
-- caller's id are free again, so that its producer may send it anew. Whether there was one.
local function drop_torn(root, id)
  local key = root .. "task:" .. id
  if redis.call("EXISTS", key) == 0 or redis.call("HEXISTS", key, "state") == 1 then
    return false
  end
  local more = decoded(redis.call("HGET", key, "more"))
  free_key(root, id, more)
  if more.ext and redis.call("GET", root .. "ext:" .. more.ext) == id then
    redis.call("DEL", root .. "ext:" .. more.ext)
  end
  for _, tag in ipairs(more.tags or {}) do
    redis.call("ZREM", root .. "tag:" .. tag, id)
  end
  redis.call("ZREM", root .. "deadlines", id)
  redis.call("DEL", key, root .. "def:" .. id)
  return true
end
