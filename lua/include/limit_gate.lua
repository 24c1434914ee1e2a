-- @include rate_left
-- @include in_hand_of
-- The gate of a limit { what, rate, per_ms, at_once }; 0 is no limit. Where nothing may pass, who
-- waits is answered when the window lets go of something, or one of those in hand is.
local function limit_gate(root, now, limit)
  local what, rate, per_ms, at_once = unpack(limit)
  local gate = { left = math.huge, limit = what, per_ms = per_ms, rate = rate, words = limit }
  if rate > 0 then
    local left, opens = rate_left(root, now, limit)
    gate.left = left
    if left < 1 then
      redis.call("ZADD", root .. "wakes", "LT", opens, what)
    end
  end
  if at_once > 0 then
    gate.left = math.min(gate.left, at_once - in_hand_of(root, what))
    if gate.left < 1 then
      redis.call("SADD", root .. "crowded", what)
    end
  end
  return gate
end
