-- Whether a task may spawn tasks of these kinds of lanes, by the rule of its DAG: "own_dag" any,
-- "same_agent" those of the agent that it is for itself, "none" nothing.
local function may_spawn(root, rule, lane, kinds)
  if rule ~= "same_agent" then
    return rule == "own_dag"
  end
  local lanes, agent = redis.call("HGETALL", root .. "lanes"), nil
  for i = 1, #lanes, 2 do
    if lanes[i + 1] == lane and string.sub(lanes[i], 1, 1) == "{" then
      agent = cjson.decode(lanes[i]).agent
    end
  end
  for _, kind in ipairs(kinds) do
    if cjson.decode(kind.signature).agent ~= agent then
      return false
    end
  end
  return true
end
