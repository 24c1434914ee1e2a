-- @include spawn_checked
-- @include freeing
-- @include spawn_tasks
-- @include enter_indexes
-- @include spawn_wait
-- @include answer_freed
-- The reply of lua/dag/spawn.lua to a call that may be made: checks all, writes all, and lets the
-- parent wait where it asks for that and something is still to come.
local function spawn_all(root, now, ask)
  local kinds, dag, refused = spawn_checked(root, now, ask)
  if refused then
    return refused
  end
  local how, reply, open = freeing(#ask.rows), { "OK", 0, "GOING" }, {}
  local lenient = ask.wait == "done"
    or redis.call("HGET", root .. "dag:" .. dag, "on_failure") == "continue"
  spawn_tasks(root, now, dag, ask, kinds, how)
  enter_indexes(root, how)
  for _, new in ipairs(ask.rows) do
    local state = new.state or redis.call("HGET", root .. "task:" .. new.id, "state")
    reply[#reply + 1], reply[#reply + 2] = new.id, state
    local ended = state == "COMPLETED" or state == "CANCELLED" or state == "GONE"
      or (state == "DEAD_LETTERED" and lenient)
    open[#open + 1] = not ended and new.id or nil
  end
  local suspended, trigger = ask.suspended, lenient and "all_done" or nil
  if ask.wait ~= "" and not suspended then
    suspended = spawn_wait(root, now, ask, open, trigger)
  end
  reply[3] = suspended and "SUSPENDED" or "GOING"
  how.freed = suspended and not ask.suspended
  reply[2] = answer_freed(root, now, how, ask.most) and 1 or 0
  return reply
end
