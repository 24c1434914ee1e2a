-- The heads of lanes, compared by effective priority.

-- Advances a lane to its next head. Returns its id, its effective priority and its lane, which may
-- be another lane of the same group; false when there is none. `chunk` heads are fetched at a time.
-- Nothing leaves the lane until all picks are made, so that ranks do not shift.
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

-- Fetches the next tasks of a tenant, four times as many as the last time; returns whether there
-- are any.
function heads.load(root, lane, tenant)
  tenant.heads, tenant.pos = redis.call("ZRANGE",
    root .. "keyed:" .. lane.number .. ":" .. tenant.name,
    tenant.from, tenant.from + tenant.size - 1, "WITHSCORES"), 1
  tenant.from, tenant.size = tenant.from + tenant.size, tenant.size * 4
  tenant.empty = #tenant.heads == 0
  return not tenant.empty
end

-- The open lanes that have a head, the heads, and their effective priorities. A group of lanes has
-- one head, and is represented by the lane of that head.
function heads.first(root, now, open, chunk)
  local live, head, value = {}, {}, {}
  for _, lane in ipairs(open) do
    if not lane.group or lane.group.first == lane then
      local i, id, points, source = #live + 1, heads.next(root, now, lane, chunk)
      if id then
        live[i], head[i], value[i] = source, id, points
      end
    end
  end
  return live, head, value
end

-- The gates of the tenant whose first task in the lane is `id`; false when `id` is not the first
-- task of its tenant, or the gates let nothing pass. A task that is no longer first leaves `heads`,
-- so that no claim checks it again; it returns when it is first again. A tenant whose gates let
-- nothing pass is added to the checked tenants and closed when the call ends; a closed tenant has
-- no task in `heads`.
local function first_task_gates(root, now, lane, id)
  local number, name = lane.number, tasks.tenant_of(root, id)
  local first = redis.call("ZRANGE", root .. "keyed:" .. number .. ":" .. name, 0, 0)[1]
  if first ~= id then
    redis.call("ZREM", root .. "heads:" .. number, id)
    lane.cursor.from = lane.cursor.from - 1
    return false
  end
  local known = lane.known[name]
  local own = known and known.gates
    or limits.tenant_gates(root, now, lane.rules, lane.by_tenant, name)
  if gates.open(own) then
    return own
  elseif not known then
    known = { name = name, came = 0, gates = own, members = {}, heads = {}, pos = 1, picked = {} }
    lane.known[name], lane.seen[#lane.seen + 1] = known, known
  end
  return false
end

-- The lowest score in a lane of tenants among the first tasks of tenants whose gates let them pass,
-- without tasks that were passed in this call; math.huge for none. The lane competes with lanes
-- outside its group by this score, so that the turn of a tenant without urgent tasks does not delay
-- an urgent tenant. `chunk` heads are fetched at a time. At most `rules.most` heads that do not
-- qualify are checked; the next claim continues.
function heads.best_score(root, now, lane, chunk)
  local advanced, most = lane.advanced, lane.rules.most
  while advanced[1] and (lane.passed[advanced[1].tie] or not gates.open(advanced[1].gates)) do
    table.remove(advanced, 1)
  end
  local best = advanced[1] and advanced[1].at or math.huge
  lane.cursor = lane.cursor or { row = {}, at = 1, from = 0, count = 0 }
  local cursor = lane.cursor
  while cursor.count < most do
    local id, score = cursor.row[cursor.at], tonumber(cursor.row[cursor.at + 1])
    if not id and cursor.ended or id and score >= best then
      return best
    elseif not id then
      cursor.row = redis.call("ZRANGE", root .. "heads:" .. lane.number,
        cursor.from, cursor.from + chunk - 1, "WITHSCORES")
      cursor.at, cursor.from, cursor.ended = 1, cursor.from + chunk, #cursor.row < 2 * chunk
    elseif lane.passed[id] then
      cursor.at = cursor.at + 2
    elseif cursor.checked == id and gates.open(cursor.gates) then
      return score
    else
      cursor.gates, cursor.checked = first_task_gates(root, now, lane, id), id
      if cursor.gates then
        return score
      end
      cursor.at, cursor.count = cursor.at + 2, cursor.count + 1
    end
  end
  return best
end

-- Notes the next task of a tenant as its first one, if it has any left and the tenant's gates let
-- it pass. The lane may compete by its score where the group has rivals, see heads.best_score.
function heads.advance_tenant(root, lane, tenant)
  if lane.group.rivals and gates.open(tenant.gates)
    and (tenant.pos <= #tenant.heads or heads.load(root, lane, tenant)) then
    turns.insert(lane.advanced, { at = tonumber(tenant.heads[tenant.pos + 1]),
      tie = tenant.heads[tenant.pos], gates = tenant.gates })
  end
end
