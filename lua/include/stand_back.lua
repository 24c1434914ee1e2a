-- A key of a lane has nothing to give, or is shut: it stands in line no more. Where its turns were,
-- `at`, is remembered while those of the lane are not so far. `first` is its first task, if any.
local function stand_back(root, lane, key, at, first)
  local turned = root .. "turned:" .. lane
  if first then
    redis.call("ZREM", root .. "heads:" .. lane, first)
  end
  if at then
    redis.call("ZREM", root .. "turns:" .. lane, key)
    local now = redis.call("ZSCORE", turned, "@now")
    if now and tonumber(at) > tonumber(now) then
      redis.call("ZADD", turned, at, key)
    end
  end
end
