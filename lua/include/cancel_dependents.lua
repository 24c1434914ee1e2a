-- @include flagged
-- @include tell_later
-- What it means for those who wait for a task that it will never complete: by the rule they are
-- cancelled too, or told that it is met, by the next call of `cancel`.
local function cancel_dependents(root, id, flags, rule, word)
  if flagged(flags, "d") or flagged(flags, "o") then
    redis.call("HSET", root .. "cancelling", "children " .. id, rule .. " " .. word)
  end
  tell_later(root, id, flags)
end
