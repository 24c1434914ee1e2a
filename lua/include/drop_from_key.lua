-- @include key_of
-- @include line_up
-- Takes a task that has left its lane out of those of its key.
local function drop_from_key(root, lane, id)
  local key = key_of(root, id)
  redis.call("ZREM", root .. "keyed:" .. lane .. ":" .. key, id)
  redis.call("ZREM", root .. "heads:" .. lane, id)
  line_up(root, lane, { key })
end
