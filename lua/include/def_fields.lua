-- Adds a definition to a flat list of hash fields: in pieces of 64 bytes, so that the hash stays
-- a listpack and a small task is one key. A larger one is left to a key of its own: true then.
local function def_fields(list, def)
  local size = #def
  if size > 512 then
    return true
  end
  -- The names are def0, def1 ...: a digit by its code is quicker than a number made text.
  local n, at = #list, 48
  for from = 1, size, 64 do
    list[n + 1] = "def" .. string.char(at)
    list[n + 2] = string.sub(def, from, from + 63)
    n, at = n + 2, at + 1
  end
  return false
end
