-- Whether anyone waits for work of these lanes: a quick look before the long answer.
local function anyone_waits(root, lanes)
  for _, lane in ipairs(lanes) do
    for _, profile in ipairs(redis.call("SMEMBERS", root .. "profiles:" .. lane)) do
      if redis.call("EXISTS", root .. "waiting:" .. profile) == 1 then
        return true
      end
      if redis.call("EXISTS", root .. "profile:" .. profile) == 0 then
        redis.call("SREM", root .. "profiles:" .. lane, profile)
      end
    end
  end
  return false
end
