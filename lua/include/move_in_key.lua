-- @include key_of
-- @include line_up
-- Gives a task another score among those of its key, if it stands there.
local function move_in_key(root, lane, score, id)
  local key = key_of(root, id)
  redis.call("ZADD", root .. "keyed:" .. lane .. ":" .. key, "XX", score, id)
  redis.call("ZADD", root .. "heads:" .. lane, "XX", score, id)
  line_up(root, lane, { key })
end
