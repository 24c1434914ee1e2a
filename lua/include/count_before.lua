-- How many tasks of a lane come before `id` with this `score`: lower scores, then lower ids. Equal
-- scores stand in the order of their ids, so that those are halved, not walked through.
local function count_before(root, lane, score, id)
  local key = root .. "lane:" .. lane
  local low = redis.call("ZCOUNT", key, "-inf", "(" .. score)
  local high = low + redis.call("ZCOUNT", key, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if redis.call("ZRANGE", key, middle, middle)[1] < id then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end
