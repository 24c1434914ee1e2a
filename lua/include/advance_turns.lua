-- The turns of a lane have come so far; each key that was looked at goes on from there, or from
-- behind what it was given. Where the turns of keys were that have left is forgotten when it is no
-- further.
local function advance_turns(root, lane, served)
  local turned, now = root .. "turned:" .. lane.number, string.format("%.0f", served)
  local further = {}
  redis.call("ZADD", turned, now, "@now")
  redis.call("ZREMRANGEBYSCORE", turned, "-inf", "(" .. now)
  for _, one in ipairs(lane.seen) do
    local at = math.max(one.began + one.step * one.passed, served)
    if at ~= one.began then
      further[#further + 1], further[#further + 2] = at, one.key
    end
  end
  if #further > 0 then
    redis.call("ZADD", root .. "turns:" .. lane.number, "XX", unpack(further))
  end
end
