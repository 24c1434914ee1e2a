-- @include note_types
-- @include is_keyed
-- The lanes of tasks with keys, of a type or of the queue for "*".
local function keyed_lanes(root, type)
  note_types(root)
  local all, found = redis.call("HGETALL", root .. "types"), {}
  for at = 1, #all, 2 do
    if is_keyed(all[at]) and (type == "*" or all[at + 1] == type) then
      found[#found + 1] = all[at]
    end
  end
  return found
end
