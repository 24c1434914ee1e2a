-- @include key_gates
-- @include opens_at
-- Adds to `found` the gates that let no task of a key pass now, and when each opens.
local function add_key_gates(root, now, rules, key, found)
  for _, gate in ipairs(key_gates(root, now, rules, {}, key)) do
    local opens = gate.left < 1 and opens_at(root, now, gate)
    if opens then
      found[#found + 1] = { gate.slow and "slowed" or "limit", gate.slow or gate.limit,
        opens < math.huge and string.format("%.0f", opens) or "" }
    end
  end
end
