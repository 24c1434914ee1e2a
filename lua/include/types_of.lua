-- @include note_types
-- The types of these lanes, each once.
local function types_of(root, lanes)
  note_types(root)
  local found, seen = {}, {}
  for _, type in ipairs(redis.call("HMGET", root .. "types", unpack(lanes))) do
    if type and not seen[type] then
      found[#found + 1], seen[type] = type, true
    end
  end
  return found
end
