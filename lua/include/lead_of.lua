-- @include may_lead
-- @include may_pass
-- The score of the best task of a lane of keys that is the first of its key, of those that may go
-- on, and was not passed; math.huge for none. The lane competes with others by it: what is urgent
-- is not kept waiting by the turn of a key that is not. `chunk` heads are fetched at a time, and of
-- those that do not lead no more are looked at than the rules say: the next claim goes on.
local function lead_of(root, now, lane, chunk)
  local fresh, most = lane.fresh, lane.rules.most
  while fresh[1] and (lane.past[fresh[1].tie] or not may_pass(fresh[1].gates)) do
    table.remove(fresh, 1)
  end
  local best = fresh[1] and fresh[1].at or math.huge
  lane.leads = lane.leads or { row = {}, at = 1, from = 0, looked = 0 }
  local leads = lane.leads
  while leads.looked < most do
    local id, score = leads.row[leads.at], tonumber(leads.row[leads.at + 1])
    if not id and leads.ended or id and score >= best then
      return best
    elseif not id then
      leads.row = redis.call("ZRANGE", root .. "heads:" .. lane.number,
        leads.from, leads.from + chunk - 1, "WITHSCORES")
      leads.at, leads.from, leads.ended = 1, leads.from + chunk, #leads.row < 2 * chunk
    elseif lane.past[id] then
      leads.at = leads.at + 2
    elseif leads.sure == id and may_pass(leads.gates) then
      return score
    else
      leads.gates, leads.sure = may_lead(root, now, lane, id), id
      if leads.gates then
        return score
      end
      leads.at, leads.looked = leads.at + 2, leads.looked + 1
    end
  end
  return best
end
