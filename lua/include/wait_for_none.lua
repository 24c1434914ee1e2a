-- A parent of one that waits for a failure has failed: it waits for no other, at most for its time.
local function wait_for_none(root, id)
  local waits = root .. "waits:" .. id
  local timed = redis.call("SISMEMBER", waits, "@time") == 1
  redis.call("DEL", waits)
  if timed then
    redis.call("SADD", waits, "@time")
  end
end
