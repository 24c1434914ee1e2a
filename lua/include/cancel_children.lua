-- @include cancel_later
-- @include unblock_task
-- Goes on with those who wait for a task that will never complete, as many as `how` has left: by
-- the rule to be cancelled, or unblocked. One that waits for what it spawned goes on in any case:
-- its code is told.
local function cancel_children(root, id, rule, word, how)
  local dependents, list = root .. "dependents:" .. id, {}
  local children = redis.call("ZPOPMIN", dependents, how.left)
  for i = 1, #children, 2 do
    local child = children[i]
    if rule == "unblock" or redis.call("HEXISTS", root .. "task:" .. child, "suspended") == 1 then
      unblock_task(root, child, id, how)
    elseif redis.call("SISMEMBER", root .. "waits:" .. child, id) == 1 then
      list[#list + 1] = { child, "Parent task_" .. id .. " " .. word, rule }
    else
      redis.call("SREM", root .. "gather:" .. child, id)
    end
  end
  cancel_later(root, list)
  how.left = how.left - #children / 2 - 1
  if redis.call("EXISTS", dependents) == 0 then
    redis.call("HDEL", root .. "cancelling", "children " .. id)
  end
end
