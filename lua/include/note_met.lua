-- Notes in `how` for a dependent that a parent is met, see unblock_met: by its name, and by a list
-- of names where there are several, since most have one.
local function note_met(how, child, parent)
  local met = how.met[child]
  if not met then
    how.met[child] = parent
    how.order[#how.order + 1] = child
  elseif type(met) == "table" then
    met[#met + 1] = parent
  else
    how.met[child] = { met, parent }
  end
end
