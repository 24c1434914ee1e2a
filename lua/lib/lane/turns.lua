-- Fair turns between tenants within one claim.

-- The next tenant of a lane that was not checked, and its virtual time; without turns the next
-- task in `heads`, and its score. `chunk` of them are fetched at a time, in all not more than the
-- rules allow: then the lane is `capped`.
local function peek_tenant(root, lane, chunk)
  if lane.next > #lane.row and not lane.ended then
    lane.capped = lane.fetched >= lane.rules.most
    local index = lane.rules.fair and "turns:" or "heads:"
    lane.row = lane.capped and {} or redis.call("ZRANGE", root .. index .. lane.number,
      lane.fetched, lane.fetched + chunk - 1, "WITHSCORES")
    lane.fetched, lane.next, lane.ended = lane.fetched + chunk, 1, #lane.row < 2 * chunk
  end
  return lane.row[lane.next], tonumber(lane.row[lane.next + 1])
end

-- Adds a tenant to the order of a lane: by its virtual time, or without turns by its first task;
-- `member` is a head of the tenant then.
local function add_tenant(root, now, lane, member, at)
  local rules, group = lane.rules, lane.group
  local name = group and member or tasks.tenant_of(root, member)
  local known = lane.known[name]
  if known then
    known.members[#known.members + 1] = member
    return
  end
  local tenant = { name = name, at = at, came = at, tie = member, members = { member }, from = 0,
    size = 2, heads = {}, pos = 1, picked = {}, step = rules.steps[name] or rules.step,
    gates = limits.tenant_gates(root, now, rules, lane.by_tenant, name) }
  lane.known[name], lane.seen[#lane.seen + 1] = tenant, tenant
  if group then
    tenant.at, tenant.tags, tenant.moves = math.max(at, group.at[name] or at), {}, {}
    turns.insert(lane.order, tenant)
  elseif heads.load(root, lane, tenant) then
    tenant.tie, tenant.at = tenant.heads[1], tonumber(tenant.heads[2])
    turns.insert(lane.order, tenant)
  end
end

-- The task of a lane of tenants that is to be leased next, and its effective priority: the first
-- task of the tenant whose turn it is, among tenants whose gates let it pass. False when there is
-- none.
function turns.next(root, now, lane, chunk)
  if not lane.order then
    lane.order, lane.seen, lane.known, lane.row, lane.next, lane.fetched = {}, {}, {}, {}, 1, 0
    lane.passed, lane.advanced = {}, {}
    tenants.reopen_due(root, now, lane.number, lane.rules.most, lane.rules.name)
  end
  local advanced = lane.group and lane.group.at or {}
  while true do
    local tenant = lane.order[1]
    local member, at = peek_tenant(root, lane, chunk)
    if tenant and tenant.at < (advanced[tenant.name] or tenant.at) then
      -- Another lane of the group has advanced this tenant.
      tenant.at = advanced[tenant.name]
      turns.insert(lane.order, table.remove(lane.order, 1))
    elseif member and (not tenant or at < tenant.at
      or (at == tenant.at and member < tenant.tie)) then
      lane.next = lane.next + 2
      add_tenant(root, now, lane, member, at)
    elseif not tenant then
      return false, false
    elseif gates.open(tenant.gates)
      and (tenant.pos <= #tenant.heads or heads.load(root, lane, tenant)) then
      lane.turn = tenant
      return tenant.heads[tenant.pos], tenant.heads[tenant.pos + 1] - lane.rate * (now / 60000)
    else
      table.remove(lane.order, 1)
    end
  end
end

-- The next task of a group of lanes: that of the tenant with the least virtual time, in whatever
-- lane; among equals by the tenant's name, then the most urgent, then the lowest id. Returns its
-- id, the effective priority by which the group competes, and its lane; false when there is none.
-- The group competes by the best priority of its lanes, see heads.best_score. A lane whose gates
-- let nothing pass leaves the group, and its priority does not count.
function turns.next_in_group(root, now, group, chunk)
  local best, value = nil, math.huge
  for i = #group, 1, -1 do
    local lane = group[i]
    local tenant, open = lane.turn, gates.open(lane.gates or {})
    if open and (not tenant or lane == group.last or tenant.at < (group.at[tenant.name] or 0)
      or not gates.open(tenant.gates)) then
      lane.head, lane.points = turns.next(root, now, lane, chunk)
      tenant = lane.turn
    end
    local other = best and best.turn
    if not (open and lane.head) then
      table.remove(group, i)
    elseif not best or tenant.at < other.at or tenant.at == other.at and (tenant.name < other.name
      or tenant.name == other.name and (lane.points < best.points
        or lane.points == best.points and lane.head < best.head)) then
      best = lane
    end
  end
  group.last, group.lender = best, best
  if not best then
    return false, false, group.first
  end
  for _, lane in ipairs(group.rivals and group or {}) do
    local lent = heads.best_score(root, now, lane, chunk) - lane.rate * (now / 60000)
    if lent < math.min(value, best.points) then
      value, group.lender = lent, lane
    end
  end
  return best.head, math.min(value, best.points), best
end

-- Makes one group of the open lanes whose tenants have turns: a task leased from one of them
-- advances its tenant in all. `at` has the virtual times of the tenants that were advanced in this
-- call; `came` is the shard's virtual time before the call and `now` the one during it; `rivals`:
-- whether there are other lanes.
function turns.group(root, open)
  local came = tonumber(redis.call("ZSCORE", root .. "turned", "@now") or "0")
  local group = { at = {}, came = came, now = came, served = -1 }
  for _, lane in ipairs(open) do
    if lane.rules and lane.rules.fair then
      lane.group = group
      group[#group + 1] = lane
    end
  end
  group.first, group.rivals = group[1], #open > #group
  open.group = group[1] and group
end

-- Advances the virtual time of a tenant by one turn, in all lanes of its group. A tenant that is
-- behind the shard's virtual time, because no worker served its lane, catches up: it advances by
-- one turn for each turn missed, but to at most one turn after that time. So it makes up for little
-- of what it missed.
local function advance_tenant(lane, tenant)
  local group, at = lane.group, tenant.at
  local missed = math.floor(math.max(0, group.now - at) / lane.rules.step)
  tenant.at = math.min(at + tenant.step * (1 + missed), math.max(group.now, at) + tenant.step)
  tenant.tags[#tenant.picked], tenant.moves[#tenant.picked] = at, tenant.at - at
  group.at[tenant.name], group.now = tenant.at, math.max(group.now, at)
end

-- Picks the first task of the tenant whose turn it is, and moves the tenant in the order, one turn
-- further.
function turns.take(root, lane)
  local tenant = lane.turn
  local head = tenant.heads[tenant.pos]
  tenant.picked[#tenant.picked + 1], lane.passed[head] = head, true
  tenant.pos = tenant.pos + 2
  gates.pass(tenant, 1)
  table.remove(lane.order, 1)
  if lane.group then
    advance_tenant(lane, tenant)
    turns.insert(lane.order, tenant)
    heads.advance_tenant(root, lane, tenant)
  elseif tenant.pos <= #tenant.heads or heads.load(root, lane, tenant) then
    tenant.tie, tenant.at = tenant.heads[tenant.pos], tonumber(tenant.heads[tenant.pos + 1])
    turns.insert(lane.order, tenant)
  end
end

-- Passes over the first task of the tenant whose turn it is. Its next task follows, in the same
-- turn, or without turns at its own place.
function turns.skip_head(root, lane)
  local tenant = lane.turn
  lane.passed[tenant.heads[tenant.pos]] = true
  tenant.pos, tenant.over = tenant.pos + 2, true
  if lane.group then
    return heads.advance_tenant(root, lane, tenant)
  end
  table.remove(lane.order, 1)
  if tenant.pos <= #tenant.heads or heads.load(root, lane, tenant) then
    tenant.tie, tenant.at = tenant.heads[tenant.pos], tonumber(tenant.heads[tenant.pos + 1])
    turns.insert(lane.order, tenant)
  end
end

-- Writes the virtual times of a group. The shard's is the latest at which a leased task was picked.
-- Each tenant that got a task continues at its new virtual time, in all lanes of the group. A
-- tenant that got none keeps its virtual time, also if its lane was full or its task too expensive.
-- A tenant's virtual time is kept in `turned` while it is ahead of the shard's.
local function write_advance(root, group, lanes)
  local turned, now = root .. "turned", math.max(group.came, group.served)
  local ahead = { now, "@now" }
  for name, at in pairs(group.at) do
    if at > now then
      ahead[#ahead + 1], ahead[#ahead + 2] = at, name
    end
  end
  redis.call("ZADD", turned, "GT", unpack(ahead))
  redis.call("ZREMRANGEBYSCORE", turned, "-inf", string.format("(%.0f", now))
  for _, lane in ipairs(lanes) do
    local moved, more = {}, lane.row[lane.next] or lane.capped
    for name, at in pairs(lane.group and group.at or {}) do
      local tenant = lane.known[name]
      if tenant and at > tenant.came or not tenant and more then
        moved[#moved + 1], moved[#moved + 2] = at, name
      end
    end
    if #moved > 0 then
      redis.call("ZADD", root .. "turns:" .. lane.number, "XX", "GT", unpack(moved))
    end
  end
end

-- Removes the picks of a tenant from its tasks; the leased ones, with a row in `rows`, join its
-- leased tasks. A pick that was held costs the tenant no turn.
local function finish_tenant(root, now, lane, tenant, rows)
  local passed, leased, group = {}, {}, lane.group
  for i, id in ipairs(tenant.picked) do
    if rows[id] then
      passed[#passed + 1] = rows[id]
      leased[#leased + 1], leased[#leased + 2] = lane.number, id
      if group then
        group.served = math.max(group.served, tenant.tags[i])
      end
    elseif group then
      group.at[tenant.name] = group.at[tenant.name] - tenant.moves[i]
    end
    lane.removed[#lane.removed + 1] = id
  end
  if tenant.picked[1] then
    redis.call("ZREM", root .. "keyed:" .. lane.number .. ":" .. tenant.name, unpack(tenant.picked))
  end
  if #leased > 0 then
    redis.call("ZADD", root .. "hand:" .. tenant.name, unpack(leased))
  end
  gates.write_passed(root, now, tenant.gates, passed)
end

-- Finishes all tenants of a lane that were checked, and removes their picks from `heads`. `rows`
-- has the rows of leased tasks by id.
local function finish_lane(root, now, lane, rows)
  lane.removed = {}
  for _, tenant in ipairs(lane.seen) do
    finish_tenant(root, now, lane, tenant, rows)
  end
  if lane.removed[1] then
    redis.call("ZREM", root .. "heads:" .. lane.number, unpack(lane.removed))
  end
end

-- Closes a tenant of a lane if its gates let nothing pass: it gets no turns until a gate opens, so
-- that no claim has to check it. Returns whether it did.
local function close_tenant(root, now, lane, tenant)
  local opens = 0
  for _, gate in ipairs(tenant.gates) do
    opens = gate.left < 1 and math.max(opens, limits.opens_at(root, now, gate) or 0) or opens
  end
  if opens == 0 then
    return false
  elseif opens == math.huge then
    redis.call("SADD", root .. "full", tenant.name)
  else
    redis.call("ZADD", root .. "wakes", "LT", opens, lane.number)
  end
  redis.call("ZADD", root .. "shut:" .. lane.number, opens == math.huge and "+inf" or opens,
    tenant.name)
  redis.call("HSET", root .. "rules", lane.number, lane.rules.name)
  return true
end

-- Closes the tenants that were checked and whose gates let nothing pass, and withdraws those
-- without tasks. Of a tenant that got a task, the next task enters `heads`, or a task that was
-- passed over. Where the claim could not check all tenants, the promoter continues.
local function close_tenants(root, now, lane)
  local number, changed, heads = lane.number, {}, {}
  for _, tenant in ipairs(lane.seen) do
    local closed = not gates.open(tenant.gates) and close_tenant(root, now, lane, tenant)
    if not lane.rules.fair and (closed or tenant.empty) then
      redis.call("ZREM", root .. "heads:" .. number, unpack(tenant.members))
    end
    if closed or tenant.empty
      or tenant.picked[1] and (tenant.over or not tenant.heads[tenant.pos]) then
      changed[#changed + 1] = tenant.name
    elseif tenant.picked[1] then
      heads[#heads + 1], heads[#heads + 2] = tenant.heads[tenant.pos + 1], tenant.heads[tenant.pos]
    end
  end
  if #heads > 0 then
    redis.call("ZADD", root .. "heads:" .. number, unpack(heads))
  end
  if #changed > 0 then
    tenants.update_heads(root, number, changed)
  end
  if lane.capped then
    redis.call("ZADD", root .. "wakes", now, number)
  end
end

-- Finishes the lanes of tenants among the `open` ones; `given` are the rows of the claim. All
-- leased tasks are counted before any tenant is closed, because a tenant may be in several lanes.
function turns.finish_all(root, now, open, given)
  local rows, checked, group = {}, {}, open.group
  for _, row in ipairs(given) do
    rows[row[1]] = row
  end
  for _, lane in ipairs(open) do
    if lane.seen then
      checked[#checked + 1] = lane
      finish_lane(root, now, lane, rows)
    end
  end
  if group and group.served >= 0 then
    write_advance(root, group, checked)
  end
  for _, lane in ipairs(checked) do
    close_tenants(root, now, lane)
  end
end

-- Removes a lane that gives nothing more in this call from its group. Returns "next": the other
-- lanes of the group may continue.
function turns.leave_group(lane)
  for i, other in ipairs(lane.group) do
    if other == lane then
      table.remove(lane.group, i)
    end
  end
  return "next"
end

-- Inserts a tenant into a lane's order of tenants: after all with a smaller `at`, or the same `at`
-- and a smaller `tie`.
function turns.insert(order, tenant)
  local low, high = 1, #order + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    local other = order[middle]
    if other.at < tenant.at or (other.at == tenant.at and other.tie < tenant.tie) then
      low = middle + 1
    else
      high = middle
    end
  end
  table.insert(order, low, tenant)
end
