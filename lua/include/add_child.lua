-- Notes in `children` a dependent of a parent, for many to be written at once.
local function add_child(children, parent, id)
  local list = children[parent] or {}
  list[#list + 1], list[#list + 2] = 0, id
  children[parent] = list
end
