-- @include block_task
-- @include count
-- @include write_def
-- Writes what is special about an accepted task; the whole task where it has to wait.
local function write_special(root, now, new, lane, more, parents, due)
  local id = new.id
  local key = root .. "task:" .. id
  if new.more ~= "" then
    redis.call("HSET", key, "more", new.more, "flags", "m")
  end
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
  if #parents == 0 and not due then
    return nil
  end
  write_def(root, id, new.def)
  redis.call("HSET", key, "state", "PENDING", "lane", lane, "created", now,
    "score", new.score, unpack(due and { "due", due } or {}))
  block_task(root, now, id, parents, due)
  count(root, lane, "PENDING", 1)
  return "PENDING"
end
