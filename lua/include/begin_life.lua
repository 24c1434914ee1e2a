-- @include write_def
-- @include flag
-- @include close_costs
-- @include count
-- @include emit
-- A dead task has a new life: attempts start again, what leads to it by other names does so again.
-- `row` is that of task_row, `def` is "" or its changed definition.
local function begin_life(root, now, id, row, def, events)
  local key, more = root .. "task:" .. id, row.more
  redis.call("ZREM", root .. "dead", id)
  redis.call("HDEL", key, "finished", "reason", "why", "settled", "attempts", "reclaims", "parks",
    "due", "failed_by", "poison", "reviewed", "resolution")
  close_costs(root, id, row.flags, more.life or 1)
  more.life = (more.life or 1) + 1
  redis.call("HSET", key, "more", cjson.encode(more))
  flag(root, id, "m")
  if more.deadline and more.deadline > now then
    redis.call("ZADD", root .. "deadlines", more.deadline, id)
  end
  if more.idem then
    redis.call("SET", root .. "idem:" .. more.idem, id)
  end
  if more.ext then
    redis.call("SET", root .. "ext:" .. more.ext, id)
  end
  if def ~= "" then
    write_def(root, id, def)
  end
  if row.entry then
    redis.call("HSETNX", key, "created", string.match(row.entry, "^%d+"))
    redis.call("HDEL", key, "entry")
  end
  count(root, row.lane, "DEAD_LETTERED", -1)
  emit(root, events, "task.revived", id, tostring(more.life))
end
