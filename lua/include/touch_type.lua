-- @include note_types
-- @include is_keyed
-- Notes in `touched` all lanes of a type, of the queue for "*", or of keys for "@<key>": what waits
-- in them may pass now.
local function touch_type(root, type, touched)
  note_types(root)
  local all = redis.call("HGETALL", root .. "types")
  for at = 1, #all, 2 do
    local by_key = string.byte(type) == 64 and is_keyed(all[at])
    if type == "*" or all[at + 1] == type or by_key then
      touched[all[at]] = true
    end
  end
end
