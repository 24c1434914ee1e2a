-- Notes in `how` for a dependent that a parent is met, see unblock_met.
local function note_met(how, child, parent)
  local met = how.met[child]
  if met then
    met[#met + 1] = parent
  else
    how.met[child] = { parent }
    how.order[#how.order + 1] = child
  end
end
