-- All fields of a hash, as a table, and the flat list it was made from.
local function fields_of(key)
  local flat, fields = redis.call("HGETALL", key), {}
  for i = 1, #flat, 2 do
    fields[flat[i]] = flat[i + 1]
  end
  return fields, flat
end
