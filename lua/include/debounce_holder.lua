-- @include delay_task
-- @include write_def
-- @include move_in_lane
-- Gives the waiting task that holds a new one's key its definition and priority, and lets it wait
-- anew. `debounced` names the last ones that did so: sent again, one changes nothing.
local function debounce_holder(root, now, holder, row, new, due)
  local key = root .. "task:" .. holder
  local names = redis.call("HGET", key, "debounced") or ""
  if string.find(names, new.id, 1, true) then
    return
  end
  redis.call("HSET", key, "score", new.score,
    "debounced", string.sub(new.id .. " " .. names, 1, 16 * (#new.id + 1)))
  redis.call("HDEL", key, "priority")
  if new.kind.price ~= "" then
    -- Of the same class: its lane is the same.
    redis.call("HSET", key, "price", new.kind.price)
  end
  write_def(root, holder, new.def)
  if due then
    delay_task(root, now, holder, row, due)
  elseif row.state == "READY" then
    -- Not where it is held back with its DAG.
    move_in_lane(root, row.lane, new.score, holder)
  end
end
