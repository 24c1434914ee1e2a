-- @include add_field
-- Notes among the fields of a new task who bore its producer's id before, if anyone did, so that it
-- can be given back, see return_name.
local function note_namesake(root, fields, ext)
  add_field(fields, "namesake", ext and redis.call("GET", root .. "ext:" .. ext))
end
