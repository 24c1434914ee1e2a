-- @include key_gate
-- @include slow_gate
-- What the tasks of a key must pass beside the gates of their lane, by the lane's `rules`: a list
-- of gates. Those of one call are kept in `doors`: several lanes may have tasks of the key.
local function key_gates(root, now, rules, doors, key)
  local gates = {}
  for _, limit in ipairs(rules.own[key] or rules.each) do
    local what = limit[1] .. "@" .. key
    doors[what] = doors[what] or key_gate(root, now, limit, key)
    gates[#gates + 1] = doors[what]
  end
  if doors.slowed == nil then
    doors.slowed = redis.call("EXISTS", root .. "slowed") == 1
  end
  local what = "@" .. key
  if doors.slowed and doors[what] == nil then
    local gate = slow_gate(root, now, what)
    doors[what] = gate == "shut" and { left = 0, slow = what } or gate
  end
  gates[#gates + 1] = doors[what] or nil
  return gates
end
