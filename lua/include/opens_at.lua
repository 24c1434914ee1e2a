-- @include rate_left
-- @include slow_gate
-- @include hand_of
-- When a gate of a key opens that lets nothing pass: math.huge where one in hand must end first,
-- nil where it is open after all.
local function opens_at(root, now, gate)
  if gate.slow then
    local slow, opens = slow_gate(root, now, gate.slow)
    return slow == "shut" and opens or nil
  end
  if gate.rate > 0 then
    local left, opens = rate_left(root, now, { gate.limit, gate.rate, gate.per_ms })
    if left < 1 then
      return opens
    end
  end
  local full = gate.at_once > 0 and hand_of(root, gate.type, gate.key) >= gate.at_once
  return full and math.huge or nil
end
