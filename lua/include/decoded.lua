-- A field that holds JSON, as a table; an absent or empty one is an empty table.
local function decoded(text)
  if not text or text == "" then
    return {}
  end
  -- Stored bytes may be broken: one task must not stop a call for many.
  local is_json, found = pcall(cjson.decode, text)
  return is_json and type(found) == "table" and found or {}
end
