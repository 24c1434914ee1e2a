-- @include opens_at
-- A key of a lane lets nothing pass: it has no turns until its time has come, or one of those in
-- hand has ended, so that no claim has to look at it. Whether it is so.
local function shut_key(root, now, lane, one)
  local opens = 0
  for _, gate in ipairs(one.gates) do
    opens = gate.left < 1 and math.max(opens, opens_at(root, now, gate) or 0) or opens
  end
  if opens == 0 then
    return false
  elseif opens == math.huge then
    redis.call("SADD", root .. "full", one.key)
  else
    redis.call("ZADD", root .. "wakes", "LT", opens, lane.number)
  end
  redis.call("ZADD", root .. "shut:" .. lane.number, opens == math.huge and "+inf" or opens,
    one.key)
  redis.call("HSET", root .. "rules", lane.number, lane.rules.name)
  return true
end
