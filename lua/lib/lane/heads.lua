-- The heads of lanes, compared by effective priority.

-- Moves a lane on to its next head, `chunk` of them fetched at a time; its id, its effective
-- priority, and its lane, which may be another of the same group; false at the end. Nothing leaves
-- the lane until all picks are made, so that ranks do not shift meanwhile.
function heads.next(root, now, lane, chunk)
  if lane.group then
    return turns.next_in_group(root, now, lane.group, chunk)
  elseif lane.rules then
    local id, points = turns.next(root, now, lane, chunk)
    return id, points, lane
  end
  lane.at = (lane.at or -1) + 2
  if not lane.heads or lane.at > #lane.heads then
    lane.from = lane.heads and lane.from + chunk or 0
    lane.heads = redis.call("ZRANGE", root .. "lane:" .. lane.number,
      lane.from, lane.from + chunk - 1, "WITHSCORES")
    lane.at = 1
  end
  local id, score = lane.heads[lane.at], lane.heads[lane.at + 1]
  return id or false, id and score - lane.rate * (now / 60000) or false, lane
end

-- Fetches the next tasks of a key, four times as many as the last time; whether there is any.
function heads.load(root, lane, one)
  one.heads, one.pos = redis.call("ZRANGE", root .. "keyed:" .. lane.number .. ":" .. one.key,
    one.from, one.from + one.size - 1, "WITHSCORES"), 1
  one.from, one.size = one.from + one.size, one.size * 4
  one.empty = #one.heads == 0
  return not one.empty
end

-- The open lanes that have a head, the heads, and their effective priorities. A group of lanes has
-- one, and is there with the lane of it.
function heads.first(root, now, open, chunk)
  local live, head, value = {}, {}, {}
  for _, lane in ipairs(open) do
    if not lane.group or lane.group.first == lane then
      local i, id, points, from = #live + 1, heads.next(root, now, lane, chunk)
      if id then
        live[i], head[i], value[i] = from, id, points
      end
    end
  end
  return live, head, value
end

-- What the tasks of a key must pass whose first is this one, of the heads of a lane; false where
-- it is not, or the key may not go on. One that was first before leaves the heads, so that no claim
-- looks at it again: it comes back when it is. A key that lets nothing pass counts as looked at,
-- and is shut when the call ends; the first of one that is shut is no head.
local function may_lead(root, now, lane, id)
  local number, key = lane.number, tasks.tenant_of(root, id)
  local first = redis.call("ZRANGE", root .. "keyed:" .. number .. ":" .. key, 0, 0)[1]
  if first ~= id then
    redis.call("ZREM", root .. "heads:" .. number, id)
    lane.leads.from = lane.leads.from - 1
    return false
  end
  local known = lane.known[key]
  local own = known and known.gates
    or limits.tenant_gates(root, now, lane.rules, lane.by_tenant, key)
  if gates.open(own) then
    return own
  elseif not known then
    known = { key = key, came = 0, gates = own, members = {}, heads = {}, pos = 1, picked = {} }
    lane.known[key], lane.seen[#lane.seen + 1] = known, known
  end
  return false
end

-- The score of the best task of a lane of keys that is the first of its key, of those that may go
-- on, and was not passed; math.huge for none. The lane competes with others by it: what is urgent
-- is not kept waiting by the turn of a key that is not. `chunk` heads are fetched at a time, and of
-- those that do not lead no more are looked at than the rules say: the next claim goes on.
function heads.best_score(root, now, lane, chunk)
  local fresh, most = lane.fresh, lane.rules.most
  while fresh[1] and (lane.past[fresh[1].tie] or not gates.open(fresh[1].gates)) do
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
    elseif leads.sure == id and gates.open(leads.gates) then
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

-- Another task of a key is the first now, if it has any left and may go on: its lane may compete by
-- that, where it has rivals. See lead_of.
function heads.advance_tenant(root, lane, one)
  if lane.group.rivals and gates.open(one.gates)
    and (one.pos <= #one.heads or heads.load(root, lane, one)) then
    turns.insert(lane.fresh, { at = tonumber(one.heads[one.pos + 1]), tie = one.heads[one.pos],
      gates = one.gates })
  end
end
