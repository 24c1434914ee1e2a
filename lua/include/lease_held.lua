-- Whether `token` holds the task now, and its row: state, token, lane, entry, flags, and the
-- one dependent that it names, if it does.
local function lease_held(root, id, token)
  local row = redis.call("HMGET", root .. "task:" .. id,
    "state", "token", "lane", "entry", "flags", "down")
  local state = row[1]
  local in_hand = state == "RUNNING" or state == "CLAIMED" or state == "VALIDATING"
  return in_hand and row[2] == token, row
end
