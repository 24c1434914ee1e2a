-- A field that holds JSON, as a table; an absent or empty one is an empty table.
local function decoded(text)
  if not text or text == "" then
    return {}
  end
  return cjson.decode(text)
end
