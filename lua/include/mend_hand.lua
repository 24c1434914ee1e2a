-- @include key_of
-- Counts a task in hand for its key, where it is not; whether that was missing.
local function mend_hand(root, id, lane)
  return redis.call("ZADD", root .. "hand:" .. key_of(root, id), "NX", lane, id) == 1
end
