-- The entries of a stream that a reader holds already, else those of readers that have fallen
-- silent: what is to be dealt with before anything new. What it holds up to `terms.after`, if that
-- is given, it has looked at and leaves for later.
local function held_entries(stream, group, reader, terms)
  local found = {}
  local held = redis.call("XREADGROUP", "GROUP", group, reader, "COUNT", terms.limit,
    "STREAMS", stream, terms.after or "0")
  for _, entry in ipairs(held and held[1][2] or {}) do
    -- One that someone deleted has no fields; XAUTOCLAIM ends the holding of such.
    if entry[2] then
      found[#found + 1] = entry
    end
  end
  if #found == 0 then
    found = redis.call("XAUTOCLAIM", stream, group, reader, terms.idle_ms, "0-0",
      "COUNT", terms.limit)[2]
  end
  return found
end
