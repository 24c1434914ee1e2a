-- @include breaker_gate
-- What the tasks of each of these lanes must pass: by number, a list of gates { left, ... }, shared
-- by the lanes that they stand before; nothing for a lane that is shut.
local function gates_of(root, now, lanes)
  local paused, seen, found = {}, {}, {}
  for _, what in ipairs(redis.call("SMEMBERS", root .. "paused")) do
    paused[what] = true
  end
  for _, lane in ipairs(lanes) do
    local number, type = lane[1], lane[3]
    if not (paused["queue"] or paused["lane=" .. number] or paused["type=" .. type]) then
      if seen[type] == nil then
        seen[type] = breaker_gate(root, now, type)
      end
      local gate = seen[type]
      if gate ~= "shut" then
        found[number] = { gate or nil }
      end
    end
  end
  return found
end
