-- The server's clock in whole milliseconds. TIME moves inside a script: call this once.
local function now_ms()
  local time = redis.call("TIME")
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
