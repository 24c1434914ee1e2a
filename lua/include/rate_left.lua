-- How many more may begin by a limit { what, rate, per_ms } now, and when the next place is free.
-- What has begun is counted in hundredths of the window, by the time at which they begin, and each
-- counts until all of it is out: so no window of that length ever has more than `rate`, whatever
-- length the one had by which others were counted.
local function rate_left(root, now, limit)
  local key, per_ms = root .. "limit:" .. limit[1], limit[3]
  local width, used, oldest = math.max(1, per_ms / 100), 0, nil
  local flat = redis.call("HGETALL", key)
  for at = 1, #flat, 2 do
    local from = tonumber(flat[at])
    if from + width + per_ms <= now then
      redis.call("HDEL", key, flat[at])
    else
      used = used + tonumber(flat[at + 1])
      oldest = math.min(oldest or from, from)
    end
  end
  return limit[2] - used, oldest and math.ceil(oldest + width + per_ms)
end
