-- A key of a lane has nothing to give, or is shut: it stands in line no more, if it did. `first` is
-- its first task, if any.
local function stand_back(root, lane, key, stood, first)
  if first then
    redis.call("ZREM", root .. "heads:" .. lane, first)
  end
  if stood then
    redis.call("ZREM", root .. "turns:" .. lane, key)
  end
end
