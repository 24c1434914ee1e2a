-- Adds a field to a flat list of them, if it has a value.
local function add_field(fields, name, value)
  if value then
    fields[#fields + 1], fields[#fields + 2] = name, value
  end
end
