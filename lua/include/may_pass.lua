-- Whether the gates of a lane let one more task pass.
local function may_pass(gates)
  for _, gate in ipairs(gates) do
    if gate.left < 1 then
      return false
    end
  end
  return true
end
