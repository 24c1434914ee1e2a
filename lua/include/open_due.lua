-- @include line_up
-- Gives the keys of a lane their turns again whose time has come, `most` of them; all whose time
-- was told by other `rules` than the ones of that name.
local function open_due(root, now, lane, most, rules)
  local shut = root .. "shut:" .. lane
  if redis.call("EXISTS", shut) == 0 then
    return
  end
  if rules and redis.call("HGET", root .. "rules", lane) ~= rules then
    redis.call("ZUNIONSTORE", shut, 1, shut, "WEIGHTS", 0)
    redis.call("HSET", root .. "rules", lane, rules)
  end
  local due = redis.call("ZRANGEBYSCORE", shut, "-inf", now, "LIMIT", 0, most)
  if #due > 0 then
    redis.call("ZREM", shut, unpack(due))
    line_up(root, lane, due)
  end
end
