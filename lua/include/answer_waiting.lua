-- @include answer_waiter
-- @include waiting_profiles
-- Answers parked claims that these lanes could serve, longest waiting first, while there is
-- something in them. `tries` bounds it; returns whether more may be left to answer: not where
-- nobody could be served or sent away, since the next call would find the same.
local function answer_waiting(root, now, lanes, tries)
  local profiles, seen, moved = {}, {}, false
  for _, lane in ipairs(lanes) do
    waiting_profiles(root, lane, profiles, seen)
  end
  while #profiles > 0 do
    if tries == 0 then
      return moved
    end
    tries = tries - 1
    local best = 1
    for i = 2, #profiles do
      best = profiles[i].since < profiles[best].since and i or best
    end
    local profile = profiles[best]
    local given = answer_waiter(root, now, profile.waiter, profile.name, profile.lanes)
    profile.skip = profile.skip + (given == 0 and 1 or 0)
    seen[profile.waiter] = given == false
    moved = moved or given ~= 0 and given ~= false
    local left = 0
    for _, lane in ipairs(lanes) do
      left = left + redis.call("ZCARD", root .. "lane:" .. lane)
    end
    local following = redis.call("ZRANGE", root .. "waiting:" .. profile.name,
      profile.skip, profile.skip, "WITHSCORES")
    if left == 0 then
      return false
    elseif following[1] and not seen[following[1]] then
      profile.waiter, profile.since = following[1], tonumber(following[2])
    else
      table.remove(profiles, best)
    end
  end
  return false
end
