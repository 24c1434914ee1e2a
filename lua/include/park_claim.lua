-- Lets a claim wait: whoever brings work answers it. A profile is a set of lanes that many
-- waiters share; it is written once, and gone when nobody has parked under it for a while.
local function park_claim(root, now, waiter, record, lanes_text, lanes, keep_ms)
  local profile = root .. "profile:" .. record.profile
  redis.call("ZADD", root .. "waiting:" .. record.profile, now, waiter)
  if redis.call("PEXPIRE", profile, keep_ms) == 1 then
    return
  end
  redis.call("SET", profile, lanes_text, "PX", keep_ms)
  redis.call("SADD", root .. "profiles:new", record.profile)
  for _, lane in ipairs(lanes) do
    redis.call("SADD", root .. "profiles:" .. lane[1], record.profile)
  end
end
