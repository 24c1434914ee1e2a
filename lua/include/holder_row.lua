-- @include fields_of
-- @include def_of
-- What the holder of a lease is told of its task: id, token, created or entry, definition,
-- attempts, reclaims, more, failed_by. One that is fresh needs but the first four, see write_claim.
local function holder_row(root, id, token, entry)
  local fields = fields_of(root .. "task:" .. id)
  return { id, token, fields.created or entry, def_of(root, id, fields),
    fields.attempts or "0", fields.reclaims or "0", fields.more or "", fields.failed_by or "" }
end
