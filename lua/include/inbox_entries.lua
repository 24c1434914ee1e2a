-- @include held_entries
-- @include others_hold
-- What a reader of the inbox is to deal with next; `last` is the newest entry where some are new,
-- and also where new ones must wait for what others hold.
local function inbox_entries(inbox, group, reader, terms)
  local found = held_entries(inbox, group, reader, terms)
  if #found == 0 and others_hold(inbox, group, reader) then
    local newest = redis.call("XREVRANGE", inbox, "+", "-", "COUNT", "1")[1]
    found.last = newest and newest[1]
  elseif #found == 0 then
    local new = redis.call("XREADGROUP", "GROUP", group, reader, "COUNT", terms.limit,
      "STREAMS", inbox, ">")
    found = new and new[1][2] or {}
    found.last = #found > 0 and found[#found][1] or nil
  end
  return found
end
