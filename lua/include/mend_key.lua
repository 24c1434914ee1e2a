-- @include key_of
-- @include line_up
-- Puts a READY task of a lane of keys back among those of its key; whether it was missing there.
local function mend_key(root, id, lane, score)
  local key = key_of(root, id)
  local missing = redis.call("ZADD", root .. "keyed:" .. lane .. ":" .. key, "NX", score, id) == 1
  line_up(root, lane, { key })
  return missing
end
