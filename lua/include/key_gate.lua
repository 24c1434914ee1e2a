-- @include rate_left
-- @include hand_of
-- The gate of a limit { type, rate, per_ms, at_once } for a key; 0 is no limit.
local function key_gate(root, now, limit, key)
  local type, rate, per_ms, at_once = unpack(limit)
  local gate = { left = math.huge, limit = type .. "@" .. key, per_ms = per_ms, rate = rate,
    at_once = at_once, type = type, key = key }
  if rate > 0 then
    gate.left = rate_left(root, now, { gate.limit, rate, per_ms })
  end
  if at_once > 0 then
    gate.left = math.min(gate.left, at_once - hand_of(root, type, key))
  end
  return gate
end
