-- @include task_row
-- @include adopt_dag
-- @include spawn_refused
-- @include spawn_gate
-- @include lane_number
-- @include kinds_of
-- Looks at what a spawn is to add: `ask.rows`, of which those known by their key, or by that of one
-- before, get its task and lose their `special`. The kinds of their lanes, and the DAG, made where
-- the parent was alone; or a refusal, and nothing is written.
local function spawn_checked(root, now, ask)
  local kinds, fresh, refused, here = kinds_of(ask.lanes, now), 0, nil, {}
  for _, new in ipairs(ask.rows) do
    local known = redis.call("HGET", root .. "spawned:" .. ask.id, new.key)
    if known or here[new.key] then
      new.id, new.special = known or here[new.key], nil
      new.state = known and (redis.call("HGET", root .. "task:" .. known, "state") or "GONE")
    else
      fresh, here[new.key] = fresh + 1, new.id
    end
    -- One that has left its worker adds nothing: it is told again what it was told.
    if ask.suspended then
      refused = fresh > 0 and { "LOST" }
    else
      refused = spawn_refused(root, new, ask)
    end
    if refused then
      return nil, nil, refused
    end
  end
  if fresh > 0 then
    refused = spawn_gate(root, ask, fresh, kinds)
    for _, kind in ipairs(refused and {} or kinds) do
      refused = not lane_number(root, kind, ask.max_lanes, now) and { "LANES" } or refused
    end
  end
  if refused then
    return nil, nil, refused
  end
  return kinds, adopt_dag(root, now, ask.id, task_row(root, ask.id))
end
