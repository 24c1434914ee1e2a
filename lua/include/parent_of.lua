-- @include is_visible
-- The task that a parent's name means, our id or "@<sha>" of a caller's own, and its state; nil
-- where there is none. A caller's own id may look like ours.
local function parent_of(root, name)
  local own, id = string.match(name, "^@(.+)"), name
  local function state_of()
    local row = redis.call("HMGET", root .. "task:" .. id, "state", "flags")
    return is_visible(root, { state = row[1], flags = row[2] }) and row[1]
  end
  local state = not own and state_of()
  if not state then
    id = redis.call("GET", root .. "ext:" .. (own or id)) or id
    state = state_of()
  end
  return id, state
end
