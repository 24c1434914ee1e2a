-- Whether `token` holds the task now, and its row: state, token, lane, entry, flags.
local function lease_held(root, id, token)
  local row = redis.call("HMGET", root .. "task:" .. id,
    "state", "token", "lane", "entry", "flags")
  local state = row[1]
  local in_hand = state == "RUNNING" or state == "CLAIMED" or state == "VALIDATING"
  return in_hand and row[2] == token, row
end
