-- Writes down anew which events become notices: those that one of the sinks wants.
local function want_again(root)
  redis.call("DEL", root .. "noticed")
  for _, sink in ipairs(redis.call("ZRANGE", root .. "sinks", 0, -1)) do
    local wants = redis.call("HGET", root .. "sink:" .. sink, "wants") or ""
    for name in string.gmatch(wants, "%S+") do
      redis.call("SADD", root .. "noticed", name)
    end
  end
end
