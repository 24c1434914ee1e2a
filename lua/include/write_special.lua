-- @include block_task
-- @include wait_task
-- @include join_dag rarely
-- @include count
-- @include write_def
-- @include lead_to
-- Writes what is special about an accepted task; the whole task where it has to wait.
local function write_special(root, now, new, lane, more, parents, due)
  local id = new.id
  if new.more ~= "" then
    redis.call("HSET", root .. "task:" .. id, "more", new.more, "flags", "m")
  end
  lead_to(root, now, id, more)
  if #parents == 0 and not due then
    return nil
  end
  write_def(root, id, new.def)
  redis.call("HSET", root .. "task:" .. id, "state", "PENDING", "lane", lane, "created", now,
    "score", new.score, unpack(due and { "due", due } or {}))
  if new.key then
    redis.call("HSET", root .. "task:" .. id, "key", new.key)
  end
  if #parents > 0 then
    join_dag(root, now, id, parents, cjson.decode(new.how).max_nodes)
  end
  block_task(root, id, parents, due, more.trigger)
  wait_task(root, now, id, due)
  count(root, lane, "PENDING", 1)
  return "PENDING"
end
