-- Brings what a lane knows of one of its keys in step with the key's own tasks. A key that has
-- something to give and is not shut stands in `turns`, by how far its turns have come, and its
-- first task in `heads`. One that comes begins where the turns of the lane are, or where its own
-- were when it left if that is further: it is not punished, and has saved nothing up.
-- It touches keyed:<n>:<key> heads:<n> turns:<n> turned:<n> shut:<n>.
local function line_up(root, lane, key)
  local turns, turned = root .. "turns:" .. lane, root .. "turned:" .. lane
  local heads = root .. "heads:" .. lane
  local first = redis.call("ZRANGE", root .. "keyed:" .. lane .. ":" .. key, 0, 0, "WITHSCORES")
  local at = redis.call("ZSCORE", turns, key)
  if first[1] and not redis.call("ZSCORE", root .. "shut:" .. lane, key) then
    redis.call("ZADD", heads, first[2], first[1])
    if not at then
      local were = redis.call("ZMSCORE", turned, "@now", key)
      local begins = math.max(tonumber(were[1] or "0"), tonumber(were[2] or "0"))
      redis.call("ZADD", turns, begins, key)
      redis.call("ZREM", turned, key)
    end
    return
  end
  if first[1] then
    redis.call("ZREM", heads, first[1])
  end
  if at then
    redis.call("ZREM", turns, key)
    local now = redis.call("ZSCORE", turned, "@now")
    if now and tonumber(at) > tonumber(now) then
      redis.call("ZADD", turned, at, key)
    end
  end
end
