-- @include stand_back
-- Brings what a lane knows of some of its keys in step with their own tasks. A key that has
-- something to give and is not shut stands in `turns`, by how far its turns have come, and its
-- first task in `heads`. One that comes begins where the turns of all are, or where its own have
-- come to in other lanes or before, if that is further: it is not punished, and has saved nothing
-- up. It touches keyed:<n>:<key> heads:<n> turns:<n> turned shut:<n>.
local function line_up(root, lane, keys)
  local turns = root .. "turns:" .. lane
  local at = redis.call("ZMSCORE", turns, unpack(keys))
  local shut = redis.call("ZMSCORE", root .. "shut:" .. lane, unpack(keys))
  local heads, new = {}, {}
  for i, key in ipairs(keys) do
    local first = redis.call("ZRANGE", root .. "keyed:" .. lane .. ":" .. key, 0, 0, "WITHSCORES")
    if not first[1] or shut[i] then
      stand_back(root, lane, key, at[i], first[1])
    else
      heads[#heads + 1], heads[#heads + 2] = first[2], first[1]
      new[#new + 1] = not at[i] and key or nil
    end
  end
  if #heads > 0 then
    redis.call("ZADD", root .. "heads:" .. lane, unpack(heads))
  end
  if #new > 0 then
    local were, begin = redis.call("ZMSCORE", root .. "turned", "@now", unpack(new)), {}
    for i, key in ipairs(new) do
      begin[2 * i - 1] = math.max(tonumber(were[1] or "0"), tonumber(were[i + 1] or "0"))
      begin[2 * i] = key
    end
    redis.call("ZADD", turns, unpack(begin))
  end
end
