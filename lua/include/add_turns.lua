-- Adds to `found` how many tasks of a lane of keys have their turn before this one, as things are
-- now. Of the keys before its own as many are counted exactly as a claim looks at, of the others
-- one turn; what other lanes have, nothing: who claims may serve them or not.
local function add_turns(root, lane, id, key, found)
  local number, rules, turns = lane[1], lane[6], root .. "turns:" .. lane[1]
  local keyed = root .. "keyed:" .. number .. ":"
  local at, own = redis.call("ZSCORE", turns, key), redis.call("ZRANK", keyed .. key, id)
  if not at or not own then
    return
  end
  local mine = at + own * (rules.steps[key] or rules.step)
  local bound, before = string.format("%.0f", mine), own
  local first = redis.call("ZRANGEBYSCORE", turns, "-inf", bound, "WITHSCORES", "LIMIT", 0,
    rules.most)
  for i = 1, #first, 2 do
    local other, step = first[i], rules.steps[first[i]] or rules.step
    if other ~= key then
      local times = math.floor((mine - first[i + 1]) / step) + 1
      if first[i + 1] + (times - 1) * step == mine and other > key then
        times = times - 1
      end
      before = before + math.min(times, redis.call("ZCARD", keyed .. other))
    end
  end
  local rest = redis.call("ZCOUNT", turns, "-inf", bound) - rules.most
  found[#found + 1] = { "turn", string.format("%.0f", before + math.max(rest, 0)), "" }
end
