-- @include breaker_gate
-- @include slow_gate
-- @include limit_gate
-- Adds to `found` the gates that let no task of a lane pass now, and when each opens.
local function add_gates(root, now, lane, dag, found)
  local number, type = lane[1], lane[3]
  local row = redis.call("HMGET", root .. "dag:" .. (dag or ""), "paused", "closing")
  if row[1] or row[2] then
    found[#found + 1] = { row[2] and "given up" or "paused", "dag=" .. dag, "" }
  end
  for _, what in ipairs({ "queue", "type=" .. type, "lane=" .. number }) do
    if redis.call("SISMEMBER", root .. "paused", what) == 1 then
      found[#found + 1] = { "paused", what, "" }
    end
  end
  if breaker_gate(root, now, type) == "shut" then
    local rest = redis.call("HMGET", root .. "breaker:" .. type, "state", "until")
    local open = tonumber(rest[2]) > now
    found[#found + 1] = { "breaker", open and "open" or "half-open", open and rest[2] or "" }
  end
  local slow, again = slow_gate(root, now, type)
  if slow == "shut" then
    found[#found + 1] = { "slowed", type, again }
  end
  for _, limit in ipairs(lane[5] or {}) do
    if limit_gate(root, now, limit).left < 1 then
      local left, opens = rate_left(root, now, limit)
      local full = limit[2] > 0 and left < 1
      found[#found + 1] = { "limit", limit[1], full and opens or "" }
    end
  end
end
