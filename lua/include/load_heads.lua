-- Fetches the next tasks of a key, twice as many as the last time; whether there is any. What is
-- not in the lane is not READY, whatever the key says: it is never given.
local function load_heads(root, lane, one)
  local key = root .. "keyed:" .. lane.number .. ":" .. one.key
  while one.pos > #one.heads do
    local to, ids = one.from + one.size - 1, {}
    local found = redis.call("ZRANGE", key, one.from, to, "WITHSCORES")
    if #found == 0 then
      one.empty = true
      return false
    end
    for at = 1, #found, 2 do
      ids[#ids + 1] = found[at]
    end
    one.heads, one.pos, one.from, one.size = {}, 1, one.from + one.size, one.size * 2
    for i, score in ipairs(redis.call("ZMSCORE", root .. "lane:" .. lane.number, unpack(ids))) do
      if score then
        one.heads[#one.heads + 1], one.heads[#one.heads + 2] = ids[i], score
      else
        one.stale[#one.stale + 1] = ids[i]
      end
    end
  end
  return true
end
