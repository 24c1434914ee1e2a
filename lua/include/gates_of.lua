-- @include gates_of_type
-- @include limit_gate rarely
-- What the tasks of each of these lanes must pass: by number, a list of gates { left, ... }, shared
-- by the lanes that they stand before; nothing for a lane that is shut.
local function gates_of(root, now, lanes)
  local paused, types, limits, found = {}, {}, {}, {}
  for _, what in ipairs(redis.call("SMEMBERS", root .. "paused")) do
    paused[what] = true
  end
  for _, lane in ipairs(lanes) do
    local number, type = lane[1], lane[3]
    if not (paused["queue"] or paused["lane=" .. number] or paused["type=" .. type]) then
      types[type] = types[type] or gates_of_type(root, now, type)
      local gates, open = { unpack(types[type]) }, not types[type].shut
      for _, limit in ipairs(lane[5] or {}) do
        limits[limit[1]] = limits[limit[1]] or limit_gate(root, now, limit)
        gates[#gates + 1] = limits[limit[1]]
        open = open and limits[limit[1]].left >= 1
      end
      found[number] = open and gates or nil
    end
  end
  return found
end
