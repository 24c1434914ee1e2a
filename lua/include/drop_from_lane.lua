-- @include is_keyed
-- @include drop_from_key rarely
-- Takes a task out of its lane; 1 where it was there, else 0.
local function drop_from_lane(root, lane, id)
  local found = redis.call("ZREM", root .. "lane:" .. lane, id)
  if found == 1 and is_keyed(lane) then
    drop_from_key(root, lane, id)
  end
  return found
end
