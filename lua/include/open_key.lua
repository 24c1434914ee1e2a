-- @include keyed_lanes
-- @include line_up
-- Gives a key its turns again in all lanes in which it is shut; they are noted in `touched`, or the
-- promoter answers who waits.
local function open_key(root, key, touched)
  for _, lane in ipairs(keyed_lanes(root, "*")) do
    if redis.call("ZREM", root .. "shut:" .. lane, key) == 1 then
      line_up(root, lane, { key })
      if touched then
        touched[lane] = true
      else
        redis.call("ZADD", root .. "wakes", 0, lane)
      end
    end
  end
end
