-- @include cancel_one
-- @include unblock_task
-- @include waits_for
-- Goes on with those who wait for a task that will never complete, as many as `how` has left: by
-- the rule cancelled, or unblocked. One that waits for what it spawned goes on in any case: its
-- code is told. Where the task lives again, all wait on.
local function cancel_children(root, now, id, rule, word, how)
  local dependents, why = root .. "dependents:" .. id, "Parent task_" .. id .. " " .. word
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "down")
  local over = not row[1] or row[1] == "CANCELLED" or row[1] == "DEAD_LETTERED"
  if over and row[2] then
    redis.call("ZADD", dependents, 0, row[2])
    redis.call("HDEL", root .. "task:" .. id, "down")
  end
  local children = over and redis.call("ZPOPMIN", dependents, how.left) or {}
  for i = 1, #children, 2 do
    local child = children[i]
    if rule == "unblock" or redis.call("HEXISTS", root .. "task:" .. child, "suspended") == 1 then
      unblock_task(root, child, id, how)
    elseif waits_for(root, child, id) then
      cancel_one(root, now, child, why, rule, how)
    else
      redis.call("SREM", root .. "gather:" .. child, id)
    end
  end
  how.left = how.left - #children / 2 - 1
  if not over or redis.call("EXISTS", dependents) == 0 then
    redis.call("HDEL", root .. "cancelling", "children " .. id)
  end
end
