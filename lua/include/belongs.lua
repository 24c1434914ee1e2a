-- @include key_belongs rarely
-- Whether a task is what a sorted set lists: a lane and its heads have the READY ones of its
-- number, `handoffs` claims by `task:epoch`, which may be started already, a tag and `deadlines`
-- every task that is there.
local function belongs(root, index, member)
  local kind, lane = string.match(index, "^(%a+):?(.*)$")
  if kind == "keyed" or kind == "turns" or kind == "shut" or kind == "hand" then
    return key_belongs(root, index, member)
  end
  local id, epoch = member, nil
  if index == "handoffs" then
    id, epoch = string.match(member, "^(.+):(%d+)$")
  end
  local row = redis.call("HMGET", root .. "task:" .. (id or ""), "state", "lane", "token")
  local state = row[1]
  if kind == "lane" or kind == "heads" then
    return state == "READY" and lane == tostring(row[2])
  elseif index == "handoffs" then
    local in_hand = state == "CLAIMED" or state == "RUNNING" or state == "VALIDATING"
    return in_hand and string.match(row[3], "^%d+") == epoch
  elseif index == "delayed" then
    return state == "RETRYING" or state == "PENDING"
  elseif index == "blocked" then
    return state == "PENDING"
  elseif index == "dead" then
    return state == "DEAD_LETTERED"
  end
  return state ~= false
end
