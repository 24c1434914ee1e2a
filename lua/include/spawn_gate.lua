-- @include may_spawn
-- @include dag_of
-- @include role_refused rarely
-- Why the DAG of a task that spawns takes no `fresh` tasks of these kinds of lanes: nil where it
-- does. One that is alone is a DAG of one, under the queue's own rule.
local function spawn_gate(root, ask, fresh, kinds)
  local dag = root .. "dag:" .. (dag_of(ask.row[5]) or "")
  local facts = redis.call("HMGET", dag, "spawn", "total", "closing")
  local rule = facts[1] or ask.rule
  local forbidden = ask.who ~= "" and role_refused(root, ask.who)
  if forbidden then
    return { "FORBIDDEN", forbidden }
  end
  if not may_spawn(root, rule, ask.row[3], kinds) then
    return { "RULE", rule }
  elseif facts[3] then
    return { "CLOSED" }
  elseif (facts[2] or 1) + fresh > ask.room then
    return { "FULL" }
  end
  return nil
end
