-- @include key_of
-- The score of the best task of a lane of keys that was the first of its key when the call began,
-- of those that are open, and was not passed since; math.huge for none. The lane competes with
-- others by it: what is urgent is not kept waiting by the turn of a key that is not.
local function lead_of(root, lane)
  local number = lane.number
  lane.leads = lane.leads or { at = 1, from = 0 }
  local leads = lane.leads
  while true do
    local id = leads[leads.at]
    if not id then
      leads = redis.call("ZRANGE", root .. "heads:" .. number, leads.from, leads.from + 9,
        "WITHSCORES")
      leads.at, leads.from = 1, lane.leads.from + 10
      lane.leads = leads
      if not leads[1] then
        return math.huge
      end
    elseif lane.past[id] then
      leads.at = leads.at + 2
    elseif leads.sure == id then
      return tonumber(leads[leads.at + 1])
    else
      -- One that was first before, or whose key is shut, may still be there.
      local key = key_of(root, id)
      local first = redis.call("ZRANGE", root .. "keyed:" .. number .. ":" .. key, 0, 0)[1] == id
      local open = first and not redis.call("ZSCORE", root .. "shut:" .. number, key)
      leads.sure = open and id
      lane.past[id] = not open
    end
  end
end
