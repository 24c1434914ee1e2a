-- @include breaker_gate
-- @include slow_gate
-- The gates before all lanes of a type; `shut` where one of them lets nothing pass.
local function gates_of_type(root, now, type)
  local found = {}
  for _, gate in ipairs({ breaker_gate(root, now, type), (slow_gate(root, now, type)) }) do
    if gate == "shut" then
      return { shut = true }
    elseif gate then
      found[#found + 1] = gate
    end
  end
  return found
end
