-- @include fields_of
-- @include def_of
-- What the holder of a lease is told of its task. `plain` is its definition where the task is
-- fresh and has nothing special; else all its fields are read.
local function holder_row(root, id, token, entry, plain)
  if plain then
    return { id, token, "0", "0", entry, "", plain }
  end
  local fields = fields_of(root .. "task:" .. id)
  return { id, token, fields.attempts or "0", fields.reclaims or "0",
    fields.created or entry, fields.more or "", def_of(root, id, fields) }
end
