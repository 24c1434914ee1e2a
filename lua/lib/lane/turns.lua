-- Fair turns between tenants within one claim.

-- The next key of a lane that was not looked at, and how far its turns have come; without turns
-- the next of the lane's heads, and its score. `chunk` are fetched at a time, and where there are
-- still more, no more in all than the rules say: `capped`.
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

-- Lets a key of a lane stand in line: by how far its turns have come, or without turns by its first
-- task, of which `member` is one.
local function look_at_tenant(root, now, lane, member, at)
  local rules, group = lane.rules, lane.group
  local key = group and member or tasks.tenant_of(root, member)
  local known = lane.known[key]
  if known then
    known.members[#known.members + 1] = member
    return
  end
  local one = { key = key, at = at, came = at, tie = member, members = { member }, from = 0,
    size = 2, heads = {}, pos = 1, picked = {}, step = rules.steps[key] or rules.step,
    gates = limits.tenant_gates(root, now, rules, lane.by_tenant, key) }
  lane.known[key], lane.seen[#lane.seen + 1] = one, one
  if group then
    one.at, one.tags, one.moves = math.max(at, group.at[key] or at), {}, {}
    turns.insert(lane.line, one)
  elseif heads.load(root, lane, one) then
    one.tie, one.at = one.heads[1], tonumber(one.heads[2])
    turns.insert(lane.line, one)
  end
end

-- The task of a lane of keys that is to be given next: the first of the key whose turn it is, of
-- those that may have one; and its effective priority. False at the end.
function turns.next(root, now, lane, chunk)
  if not lane.line then
    lane.line, lane.seen, lane.known, lane.row, lane.next, lane.fetched = {}, {}, {}, {}, 1, 0
    lane.past, lane.fresh = {}, {}
    tenants.reopen_due(root, now, lane.number, lane.rules.most, lane.rules.name)
  end
  local given = lane.group and lane.group.at or {}
  while true do
    local one = lane.line[1]
    local member, at = peek_tenant(root, lane, chunk)
    if one and one.at < (given[one.key] or one.at) then
      -- Another lane has given it something.
      one.at = given[one.key]
      turns.insert(lane.line, table.remove(lane.line, 1))
    elseif member and (not one or at < one.at or (at == one.at and member < one.tie)) then
      lane.next = lane.next + 2
      look_at_tenant(root, now, lane, member, at)
    elseif not one then
      return false, false
    elseif gates.open(one.gates) and (one.pos <= #one.heads or heads.load(root, lane, one)) then
      lane.turn = one
      return one.heads[one.pos], one.heads[one.pos + 1] - lane.rate * (now / 60000)
    else
      table.remove(lane.line, 1)
    end
  end
end

-- The next task of a group of lanes: that of the key whose turns have come least far, whatever its
-- lane; among equals by the name of the key, then the most urgent, then the lowest id. Its id,
-- what the group competes by, which is the best that its lanes have, see lead_of, and its lane.
-- False at the end. A lane whose gates let nothing pass leaves the group, and lends it nothing.
function turns.next_in_group(root, now, group, chunk)
  local best, value = nil, math.huge
  for i = #group, 1, -1 do
    local lane = group[i]
    local one, open = lane.turn, gates.open(lane.gates or {})
    if open and (not one or lane == group.last or one.at < (group.at[one.key] or 0)
      or not gates.open(one.gates)) then
      lane.head, lane.points = turns.next(root, now, lane, chunk)
      one = lane.turn
    end
    local other = best and best.turn
    if not (open and lane.head) then
      table.remove(group, i)
    elseif not best or one.at < other.at or one.at == other.at and (one.key < other.key
      or one.key == other.key and (lane.points < best.points
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

-- The open lanes whose keys have turns are one group: what one of them gives moves its key in all.
-- `at` has by key how far the turns of those have come that were given something in this call,
-- `now` how far all have; `rivals` is whether there are other lanes.
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

-- A key was given a turn, in all lanes of its group: how far its turns have come. Where they are
-- behind those of all, because no worker looked at its lane, it is so many turns at once, by its
-- weight, and no further than one more than all: it makes up for little of what it has missed.
local function advance_tenant(lane, one)
  local group, at = lane.group, one.at
  local missed = math.floor(math.max(0, group.now - at) / lane.rules.step)
  one.at = math.min(at + one.step * (1 + missed), math.max(group.now, at) + one.step)
  one.tags[#one.picked], one.moves[#one.picked] = at, one.at - at
  group.at[one.key], group.now = one.at, math.max(group.now, at)
end

-- The first task of the key whose turn it is was picked: it stands in line again, a turn further.
function turns.take(root, lane)
  local one = lane.turn
  one.picked[#one.picked + 1], lane.past[one.heads[one.pos]] = one.heads[one.pos], true
  one.pos = one.pos + 2
  gates.pass(one, 1)
  table.remove(lane.line, 1)
  if lane.group then
    advance_tenant(lane, one)
    turns.insert(lane.line, one)
    heads.advance_tenant(root, lane, one)
  elseif one.pos <= #one.heads or heads.load(root, lane, one) then
    one.tie, one.at = one.heads[one.pos], tonumber(one.heads[one.pos + 1])
    turns.insert(lane.line, one)
  end
end

-- The first task of the key whose turn it is is passed over: its next one is looked at instead, in
-- the same turn, or without turns at its own place.
function turns.skip_head(root, lane)
  local one = lane.turn
  lane.past[one.heads[one.pos]] = true
  one.pos, one.over = one.pos + 2, true
  if lane.group then
    return heads.advance_tenant(root, lane, one)
  end
  table.remove(lane.line, 1)
  if one.pos <= #one.heads or heads.load(root, lane, one) then
    one.tie, one.at = one.heads[one.pos], tonumber(one.heads[one.pos + 1])
    turns.insert(lane.line, one)
  end
end

-- The turns have come as far as that of the last task given. Each key that was given something goes
-- on from behind that, in all lanes of the group. One that was not stays where it is, also if it
-- was looked at and its lane was full or its task too dear: who waits keeps its place.
-- How far the turns of a key have come is remembered while those of all are not so far.
local function write_advance(root, group, lanes)
  local turned, now = root .. "turned", math.max(group.came, group.served)
  local further = { now, "@now" }
  for key, at in pairs(group.at) do
    if at > now then
      further[#further + 1], further[#further + 2] = at, key
    end
  end
  redis.call("ZADD", turned, "GT", unpack(further))
  redis.call("ZREMRANGEBYSCORE", turned, "-inf", string.format("(%.0f", now))
  for _, lane in ipairs(lanes) do
    local moved, more = {}, lane.row[lane.next] or lane.capped
    for key, at in pairs(lane.group and group.at or {}) do
      local one = lane.known[key]
      if one and at > one.came or not one and more then
        moved[#moved + 1], moved[#moved + 2] = at, key
      end
    end
    if #moved > 0 then
      redis.call("ZADD", root .. "turns:" .. lane.number, "XX", "GT", unpack(moved))
    end
  end
end

-- What was picked of a key leaves it; what was given, by its row in `rows`, is in hand. What was
-- held back costs the key no turn.
local function finish_tenant(root, now, lane, one, rows)
  local passed, hand, group = {}, {}, lane.group
  for i, id in ipairs(one.picked) do
    if rows[id] then
      passed[#passed + 1] = rows[id]
      hand[#hand + 1], hand[#hand + 2] = lane.number, id
      if group then
        group.served = math.max(group.served, one.tags[i])
      end
    elseif group then
      group.at[one.key] = group.at[one.key] - one.moves[i]
    end
    lane.gone[#lane.gone + 1] = id
  end
  if one.picked[1] then
    redis.call("ZREM", root .. "keyed:" .. lane.number .. ":" .. one.key, unpack(one.picked))
  end
  if #hand > 0 then
    redis.call("ZADD", root .. "hand:" .. one.key, unpack(hand))
  end
  gates.write_passed(root, now, one.gates, passed)
end

-- What was picked of a lane of keys leaves its key, and was given where it stands in `rows` by its
-- id.
local function finish_lane(root, now, lane, rows)
  lane.gone = {}
  for _, one in ipairs(lane.seen) do
    finish_tenant(root, now, lane, one, rows)
  end
  if lane.gone[1] then
    redis.call("ZREM", root .. "heads:" .. lane.number, unpack(lane.gone))
  end
end

-- A key of a lane lets nothing pass: it has no turns until its time has come, or one of those in
-- hand has ended, so that no claim has to look at it. Whether it is so.
local function close_tenant(root, now, lane, one)
  local opens = 0
  for _, gate in ipairs(one.gates) do
    opens = gate.left < 1 and math.max(opens, limits.opens_at(root, now, gate) or 0) or opens
  end
  if opens == 0 then
    return false
  elseif opens == math.huge then
    redis.call("SADD", root .. "full", one.key)
  else
    redis.call("ZADD", root .. "wakes", "LT", opens, lane.number)
  end
  redis.call("ZADD", root .. "shut:" .. lane.number, opens == math.huge and "+inf" or opens,
    one.key)
  redis.call("HSET", root .. "rules", lane.number, lane.rules.name)
  return true
end

-- The keys of a lane that were looked at have no turns for a while where they let nothing pass now,
-- or nothing is left of them. Of one that was given something the next task is a head, or what was
-- passed over. Where a claim could not look at all, the promoter goes on.
local function close_tenants(root, now, lane)
  local number, changed, heads = lane.number, {}, {}
  for _, one in ipairs(lane.seen) do
    local closed = not gates.open(one.gates) and close_tenant(root, now, lane, one)
    if not lane.rules.fair and (closed or one.empty) then
      redis.call("ZREM", root .. "heads:" .. number, unpack(one.members))
    end
    if closed or one.empty or one.picked[1] and (one.over or not one.heads[one.pos]) then
      changed[#changed + 1] = one.key
    elseif one.picked[1] then
      heads[#heads + 1], heads[#heads + 2] = one.heads[one.pos + 1], one.heads[one.pos]
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

-- Ends a claim's look at the lanes of keys among those that were open; `given` are its rows. What
-- was given of all lanes is counted before any key is shut: a key may be in several.
function turns.finish_all(root, now, open, given)
  local rows, looked, group = {}, {}, open.group
  for _, row in ipairs(given) do
    rows[row[1]] = row
  end
  for _, lane in ipairs(open) do
    if lane.seen then
      looked[#looked + 1] = lane
      finish_lane(root, now, lane, rows)
    end
  end
  if group and group.served >= 0 then
    write_advance(root, group, looked)
  end
  for _, lane in ipairs(looked) do
    close_tenants(root, now, lane)
  end
end

-- A lane gives no more in this call, the others of its group may: "next".
function turns.leave_group(lane)
  for i, one in ipairs(lane.group) do
    if one == lane then
      table.remove(lane.group, i)
    end
  end
  return "next"
end

-- Puts a key into the line of those whose turn it may be, behind all whose turn is before its own.
function turns.insert(line, one)
  local low, high = 1, #line + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    local other = line[middle]
    if other.at < one.at or (other.at == one.at and other.tie < one.tie) then
      low = middle + 1
    else
      high = middle
    end
  end
  table.insert(line, low, one)
end
