-- @include note_types
-- Notes in `touched` all lanes of a type, or of the queue for "*": what waits in them may pass now.
local function touch_type(root, type, touched)
  note_types(root)
  local all = redis.call("HGETALL", root .. "types")
  for at = 1, #all, 2 do
    if type == "*" or all[at + 1] == type then
      touched[all[at]] = true
    end
  end
end
