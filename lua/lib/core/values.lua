-- Plain values: time, JSON fields, flat lists, stream ids.

-- The server's clock in whole milliseconds, as a number and as text, since formatting a number is
-- slow. TIME changes within a call: call this once.
function values.now_ms()
  local time = redis.call("TIME")
  local micros = time[2]
  local text = time[1] .. string.sub(#micros == 6 and micros or "00000" .. micros, -6, -4)
  return tonumber(text), text
end

-- The UTC day of a time, as the text of its number.
function values.day_of(now)
  return string.format("%.0f", math.floor(now / 86400000))
end

-- The time when an entry was added to its stream, in ms, from its id: this saves a call of TIME.
function values.entry_ms(entry)
  return tonumber(string.match(entry, "^%d+"))
end

-- A field that holds JSON, as a table; an absent or empty one is an empty table.
function values.decoded(text)
  if not text or text == "" then
    return {}
  end
  -- Stored bytes may be broken: one task must not stop a call for many.
  local is_json, found = pcall(cjson.decode, text)
  return is_json and type(found) == "table" and found or {}
end

-- All fields of a hash, as a table, and the flat list it was made from.
function values.fields_of(key)
  local flat, fields = redis.call("HGETALL", key), {}
  for i = 1, #flat, 2 do
    fields[flat[i]] = flat[i + 1]
  end
  return fields, flat
end

-- Adds a field to a flat list of them, if it has a value.
function values.add_field(fields, name, value)
  if value then
    fields[#fields + 1], fields[#fields + 2] = name, value
  end
end

-- How many bytes the texts of a list have.
function values.bytes_of(list)
  local bytes = 0
  for _, text in ipairs(list) do
    bytes = bytes + #text
  end
  return bytes
end

-- The smaller of two numbers as text, each of which may be missing.
function values.sooner(one, other)
  if one and other then
    return tonumber(one) < tonumber(other) and one or other
  end
  return one or other
end

-- Removes the item at a position from each of these lists.
function values.remove_at(place, ...)
  for _, list in ipairs({ ... }) do
    table.remove(list, place)
  end
end

-- Whether one id of a stream entry is before another.
function values.precedes(one, other)
  local ms, at = string.match(one, "^(%d+)-(%d+)$")
  local other_ms, other_at = string.match(other, "^(%d+)-(%d+)$")
  if ms ~= other_ms then
    return tonumber(ms) < tonumber(other_ms)
  end
  return tonumber(at) < tonumber(other_at)
end

-- Whether a list holds an item.
function values.contains(list, item)
  for _, found in ipairs(list) do
    if found == item then
      return true
    end
  end
  return false
end

-- Removes a name, or a list of names, from a set.
function values.remove_members(set, names)
  if type(names) == "table" then
    redis.call("SREM", set, unpack(names))
  else
    redis.call("SREM", set, names)
  end
end
