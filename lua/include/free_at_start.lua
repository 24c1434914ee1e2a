-- @include decoded
-- @include free_key
-- Gives up the idempotency key of a task that keeps it until it starts only.
local function free_at_start(root, id)
  local more = decoded(redis.call("HGET", root .. "task:" .. id, "more"))
  if more.unique == "until_start" then
    free_key(root, id, more)
  end
end
