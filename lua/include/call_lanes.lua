-- @include put_mail
-- Mails everyone who waits that a lane was made: they look again at what they may serve.
local function call_lanes(root, version)
  for _, profile in ipairs(redis.call("SMEMBERS", root .. "profiles:new")) do
    local waiting = redis.call("ZRANGE", root .. "waiting:" .. profile, 0, -1)
    for _, waiter in ipairs(waiting) do
      local box = redis.call("HGET", root .. "waiter:" .. waiter, "box")
      if box then
        put_mail(root, box, "lanes " .. version)
      end
    end
    if #waiting == 0 and redis.call("EXISTS", root .. "profile:" .. profile) == 0 then
      redis.call("SREM", root .. "profiles:new", profile)
    end
  end
end
