-- Adds to `found` the profiles that serve a lane and have someone waiting.
local function waiting_profiles(root, lane, found, seen)
  for _, name in ipairs(redis.call("SMEMBERS", root .. "profiles:" .. lane)) do
    local first = not seen[name]
      and redis.call("ZRANGE", root .. "waiting:" .. name, 0, 0, "WITHSCORES")
    if first and first[1] then
      local lanes = redis.call("GET", root .. "profile:" .. name)
      found[#found + 1] = { name = name, waiter = first[1], since = tonumber(first[2]),
        lanes = cjson.decode(lanes or "[]"), skip = 0 }
    end
    seen[name] = true
  end
end
