-- @include flag
-- Lets parents know who waits for them. By its `trigger` they must complete, or only end: those
-- who wait for that are their heirs.
local function tell_parents(root, id, parents, trigger)
  for _, parent in ipairs(parents) do
    if trigger then
      redis.call("HSET", root .. "heirs:" .. parent, id, trigger)
      flag(root, parent, "h")
    else
      redis.call("ZADD", root .. "dependents:" .. parent, 0, id)
      flag(root, parent, "d")
    end
  end
end
