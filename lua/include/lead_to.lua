-- Writes what leads to a task by other names: its key, its producer's id, tags, deadline.
local function lead_to(root, now, id, more)
  if more.idem then
    redis.call("SET", root .. "idem:" .. more.idem, id)
  end
  if more.ext then
    redis.call("SET", root .. "ext:" .. more.ext, id)
  end
  for _, tag in ipairs(more.tags or {}) do
    redis.call("ZADD", root .. "tag:" .. tag, now, id)
  end
  if more.deadline then
    redis.call("ZADD", root .. "deadlines", more.deadline, id)
  end
end
