-- @include fields_of
-- @include def_of
-- What the holder of a lease is told of its task: id, token, created or entry, definition, and
-- where there is more to say attempts, reclaims, more, failed_by. `plain` is the definition of a
-- task that is fresh and has nothing special; else all its fields are read.
local function holder_row(root, id, token, entry, plain)
  if plain then
    return { id, token, entry, plain }
  end
  local fields = fields_of(root .. "task:" .. id)
  return { id, token, fields.created or entry, def_of(root, id, fields),
    fields.attempts or "0", fields.reclaims or "0", fields.more or "", fields.failed_by or "" }
end
