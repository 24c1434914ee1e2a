-- @include role_refused rarely
-- Why nothing new is taken now, as a word and its detail; nil where it is, and then whether the
-- queue has an archive. `who` is "" or who asks, see role_refused; `most` is how many ended tasks
-- may wait for the archive, 0 for any number; "" where the caller knows of none: then it is as
-- many as who has joined one says.
local function refusal(root, who, most)
  local forbidden = who ~= "" and role_refused(root, who)
  local limit = most ~= "" and most or redis.call("GET", root .. "archiving")
  local waiting = limit and limit ~= "0" and redis.call("HGET", root .. "stats", "outbox")
  if forbidden then
    return "FORBIDDEN", forbidden
  elseif waiting and tonumber(waiting) >= tonumber(limit) then
    return "FULL", waiting
  end
  return nil, nil, limit and true
end
