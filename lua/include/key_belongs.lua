-- Whether a member is what a sorted set of keys lists: `keyed` the READY tasks of a lane and a key,
-- `hand` those of a key that are in hand, `turns` keys that have something to give, `shut` those
-- whose time will come, or that have something in hand.
local function key_belongs(root, index, member)
  local kind, lane, key = string.match(index, "^(%a+):(%-?%d*):?(.*)$")
  if kind == "turns" then
    return redis.call("EXISTS", root .. "keyed:" .. lane .. ":" .. member) == 1
  elseif kind == "shut" then
    local opens = tonumber(redis.call("ZSCORE", root .. index, member) or "0")
    return opens < math.huge or redis.call("EXISTS", root .. "hand:" .. member) == 1
  end
  local row = redis.call("HMGET", root .. "task:" .. member, "state", "lane", "key")
  if kind == "keyed" then
    return row[1] == "READY" and row[2] == lane and row[3] == key
  end
  local in_hand = row[1] == "CLAIMED" or row[1] == "RUNNING" or row[1] == "VALIDATING"
  return in_hand and index == "hand:" .. tostring(row[3])
end
