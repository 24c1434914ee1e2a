-- @include entry_ms
-- @include is_keyed
-- @include write_plain
-- @include bring_alone rarely
-- The reply to a call for one new, plain task of a lane that is there; nil for any other call.
-- Most calls are of this kind, and what the others need costs them a fifth of their time.
local function submit_alone(root, lanes, tries, id, place, def)
  local rate, signature = string.match(lanes, "^([^%s$]+) ([^\n]+)$")
  local lane = signature and redis.call("HGET", root .. "lanes", signature)
  local key = root .. "task:" .. id
  if not lane or is_keyed(lane) or redis.call("EXISTS", key) == 1 then
    return nil
  end
  local entry = redis.call("XADD", root .. "ready", "*", "task", id)
  local now = entry_ms(entry)
  local score = string.format("%.0f", string.sub(place, 3) + rate * now / 60000)
  write_plain(root, id, key, entry, lane, score, def)
  redis.call("HINCRBY", root .. "stats", "submitted", 1)
  local profiles = redis.call("SMEMBERS", root .. "profiles:" .. lane)
  local waiter = #profiles == 1
    and redis.call("ZRANGE", root .. "waiting:" .. profiles[1], 0, 0)[1]
  if waiter or #profiles > 1 then
    local task = { id, entry, lane, def }
    return { "OK", bring_alone(root, now, task, score, waiter, profiles[1], tonumber(tries)) }
  end
  redis.call("ZADD", root .. "lane:" .. lane, score, id)
  return { "OK", 0 }
end
