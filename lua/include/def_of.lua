-- The definition of a task, from the fields of its hash or from its own key.
local function def_of(root, id, fields)
  if not fields.def0 then
    return redis.call("GET", root .. "def:" .. id) or ""
  elseif not fields.def2 then
    return fields.def0 .. (fields.def1 or "")
  end
  return table.concat({ fields.def0, fields.def1, fields.def2, fields.def3 or "",
    fields.def4 or "", fields.def5 or "", fields.def6 or "", fields.def7 or "" })
end
