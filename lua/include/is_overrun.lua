-- @include price_of
-- @include left_of
-- @include dag_of
-- @include dag_left
-- Whether a run has to end for what it costs: its task has cost more in this life than it may, or
-- it has cost more than was set aside for it and an account that pays it is overdrawn.
local function is_overrun(root, now, id, flags, owner)
  local row = redis.call("HMGET", root .. "notes:" .. id, "micro_usd", "before")
  local _, most = price_of(root, id)
  if most > 0 and (row[1] or 0) - (row[2] or 0) > most then
    return true
  end
  local left = redis.call("HGET", root .. "task:" .. id, "reserved")
  if not left or string.sub(left, 1, 1) ~= "-" then
    return false
  end
  local dag = dag_of(flags)
  local lefts = { left_of(root, now, "day") or 0, left_of(root, now, "worker=" .. owner) or 0,
    dag and dag_left(root, dag) or 0 }
  return math.min(unpack(lefts)) < 0
end
