-- The claim: picks the best tasks over lanes in exact order and leases them.

-- The lanes that can be served now with `n` tasks for `claim`, from a list of { number, rate, type,
-- exclusive_ms, limits, rules, cost class }: not those that are paused, closed by a gate or too
-- expensive. Each is { number, rate, picked } and, where they apply: `exclusive_ms`, how long a
-- worker drains for an exclusive task of the lane; `gates` that let only some tasks pass; `rules`
-- of a lane of tenants, with the gates of tenants in `by_tenant`; `priced`. Lanes with any of these
-- are `checked` at each pick. Where a budget bounds the worker, `claim.funds` is set, and
-- `claim.tight_funds` when prices must be compared with it.
local function open_lanes(root, now, lanes, n, claim)
  local any = redis.call("EXISTS", root .. "paused", root .. "breakers", root .. "slowed",
    root .. "budgets") > 0
  for _, lane in ipairs(lanes) do
    any = any or lane[5]
  end
  local found = any and gates.of_lanes(root, now, lanes)
  local funds = any and accounts.tightest(root, now, claim.consumer)
  local open, by_tenant = {}, nil
  for _, lane in ipairs(lanes) do
    local own = found and found[lane[1]]
    if (own or not found) and (not funds or accounts.can_afford(root, now, funds, lane, n)) then
      -- The number as text: it becomes part of key names.
      local candidate = { number = lane[1] .. "", rate = lane[2], picked = {} }
      open[#open + 1] = candidate
      own = own and own[1] and own
      if own or lane[4] or lane[6] or lane[7] then
        by_tenant = by_tenant or {}
        candidate.exclusive_ms, candidate.gates, candidate.rules = lane[4], own, lane[6]
        candidate.by_tenant, candidate.priced = by_tenant, lane[7]
        candidate.checked = lane[4] or own or lane[6] or funds and lane[7]
        open.with_tenants, open.priced = open.with_tenants or lane[6], open.priced or lane[7]
      end
    end
  end
  if open.with_tenants then
    turns.group(root, open)
  end
  if funds then
    claim.funds, claim.tight_funds = funds, funds.tight and funds
  end
  return open
end

-- The first `n` tasks of the only open lane. Its own order suffices, so no scores are read.
local function pick_one_lane(root, now, lane, n, claim)
  local key = root .. "lane:" .. lane.number
  n = lane.gates and gates.most(lane.gates, n) or n
  if n > 0 and not lane.exclusive_ms then
    lane.picked = redis.call("ZRANGE", key, "0", n == 1 and "0" or n - 1)
  elseif n > 0 and redis.call("ZCARD", key) > 0
    and exclusive.verdict(root, now, lane, 0, claim) == "run" then
    lane.picked = redis.call("ZRANGE", key, 0, 0)
  end
  gates.pass(lane, #lane.picked)
  return lane.picked
end

-- Whether the head of a lane can be picked after `picked` other tasks. Returns nil for yes; "skip"
-- when the lane gives nothing more in this call; "next" when another task or tenant of the lane
-- may, or when the lane that lends its group its priority has become full; else the word of
-- exclusive.verdict: no other task is leased beside an exclusive task.
local function lane_verdict(root, now, lane, head, picked, claim)
  local lender = lane.group and lane.group.lender
  if lane.gates and not gates.open(lane.gates) then
    return "skip"
  elseif lane.rules and not gates.open(lane.turn.gates)
    or lender and not gates.open(lender.gates or {}) then
    return "next"
  end
  local price = claim.tight_funds and lane.priced and accounts.price_of(root, head)
  if price and price > claim.tight_funds.left then
    return accounts.skip_unaffordable(root, now, claim.tight_funds, lane)
  end
  local verdict = lane.exclusive_ms and exclusive.verdict(root, now, lane, picked, claim) or nil
  if price and (not verdict or verdict == "run") then
    claim.tight_funds.left = claim.tight_funds.left - price
  end
  return verdict
end

-- Counts the picked head of a lane against the lane's gates and its tenant's turn.
local function pass_head(root, lane)
  gates.pass(lane, 1)
  if lane.rules then
    turns.take(root, lane)
  end
end

-- The `n` best tasks of several open lanes in exact order: lowest effective priority first, then
-- lowest id. Within a group of lanes, turns decide. Adds the ids from each lane to its `picked`.
local function pick_heads(root, now, open, n, claim)
  local chunk, picks = math.ceil(2 * n / #open), {}
  local live, head, value = heads.first(root, now, open, chunk)
  while #picks < n and #live > 0 do
    local best = 1
    for i = 2, #live do
      if value[i] < value[best] or (value[i] == value[best] and head[i] < head[best]) then
        best = i
      end
    end
    local lane = live[best]
    local verdict = lane.checked and lane_verdict(root, now, lane, head[best], #picks, claim)
    if verdict == "skip" and lane.group then
      verdict = turns.leave_group(lane)
    elseif not verdict or verdict == "run" then
      picks[#picks + 1], lane.picked[#lane.picked + 1] = head[best], head[best]
      if lane.gates or lane.rules then
        pass_head(root, lane)
      end
    end
    if (verdict and verdict ~= "next") or #picks == n then
      head[best], n = false, (verdict == "run" or verdict == "drain") and 0 or n
    else
      head[best], value[best], live[best] = heads.next(root, now, lane, chunk)
    end
    if not head[best] then
      values.remove_at(best, live, value, head)
    end
  end
  return picks
end

-- Whether the DAG named in the `flags` of a task lets the task be claimed: not while it is paused
-- or being cancelled. The first claimable task sets a pending DAG to running. `seen` keeps the
-- answer for the rest of the call.
local function dag_gate(root, flags, seen)
  local dag = tasks.dag_of(flags)
  if not dag then
    seen[flags] = true
  elseif seen[dag] == nil then
    local key = root .. "dag:" .. dag
    local row = redis.call("HMGET", key, "status", "paused", "closing")
    seen[dag] = not row[2] and not row[3]
    if row[1] == "pending" and seen[dag] then
      redis.call("HSET", key, "status", "running")
    end
  end
  seen[flags] = seen[flags] or seen[dag]
  return seen[flags]
end

-- Splits picks into claimable and held ones. Returns the ids, rows and entries of the claimable
-- ones; and by id what holds the others, nil when nothing does: the DAG that is paused or being
-- cancelled, or "$<dag>" when its budget is exceeded. With `priced`, the prices are read too.
local function sift_picks(root, picks, priced)
  local task, rows, entries, kept, held = root .. "task:", {}, {}, {}, nil
  local seen, free
  for _, id in ipairs(picks) do
    local row = priced and redis.call("HMGET", task .. id,
      "entry", "token", "flags", "def0", "def1", "def2", "created", "price")
      or redis.call("HMGET", task .. id,
        "entry", "token", "flags", "def0", "def1", "def2", "created")
    local flags, what = row[3], nil
    if flags then
      seen, free = seen or {}, free or {}
      if not (seen[flags] or dag_gate(root, flags, seen)) then
        what = tasks.dag_of(flags)
      elseif not (free[flags] or accounts.dag_pays(root, id, flags, seen, free)) then
        what = "$" .. tasks.dag_of(flags)
      end
    end
    if what then
      held = held or {}
      held[id] = what
    else
      local n = #kept + 1
      kept[n], rows[n], entries[n] = id, row, row[1] or "0-1"
    end
  end
  return kept, rows, entries, held
end

-- Removes the picks of a lane from it and counts those that were leased. Picks in `held` move to
-- the held or unpaid tasks of their DAG; those in `lost` had no stream entry.
local function leave_lane(root, lane, held, lost, state)
  local leased = #lane.picked
  if leased == 0 then
    return
  end
  redis.call("ZREM", root .. "lane:" .. lane.number, unpack(lane.picked))
  if held or lost then
    held, lost = held or {}, lost or {}
    for _, id in ipairs(lane.picked) do
      leased = leased - ((held[id] or lost[id]) and 1 or 0)
      if held[id] then
        paused.hold(root, held[id], id, lane.number)
      end
    end
  end
  if leased > 0 then
    lanes.count(root, lane.number, state, leased)
  end
end

-- Leases the picks to `claim` { consumer, bits, started, begin, at }, where `at` is `now` as text.
-- Returns one row per leased task, and the number of picks that were held. A pick whose DAG is
-- paused, being cancelled or out of budget moves from its lane to the held or unpaid tasks. A pick
-- without its stream entry is left to the sweeper in `orphans`.
local function lease_picks(root, now, picks, open, claim)
  local kept, rows, entries, held = sift_picks(root, picks, open.priced)
  local taken = #kept > 0 and lease.take_entries(root, claim.consumer, entries)
  local given, lost, sums = {}, nil, nil
  claim.at = claim.at or string.format("%.0f", now)
  for i, id in ipairs(kept) do
    local row = rows[i]
    if taken and not taken[row[1]] then
      redis.call("SADD", root .. "orphans", id)
      lost = lost or {}
      lost[id] = 1
    else
      if row[8] then
        sums = sums or {}
        row.reserved = accounts.reserve_for(root, row, claim, sums)
      end
      given[#given + 1] = lease.write(root, id, row, claim, not claim.begin or i <= claim.begin)
    end
  end
  if sums then
    accounts.reserve(root, sums)
  end
  for _, lane in ipairs(open) do
    leave_lane(root, lane, held, lost, claim.started and "RUNNING" or "CLAIMED")
  end
  return given, #picks - #kept
end

-- Records the exclusive task that the worker now runs, and the tasks that have passed gates: both
-- bear on later claims.
local function mark_picked(root, now, open, given, claim)
  for _, lane in ipairs(open) do
    if lane.exclusive_ms and lane.picked[1] then
      redis.call("HSET", root .. "worker:" .. claim.consumer, "alone", lane.picked[1])
    end
    if lane.gates and lane.picked[1] then
      gates.mark(root, now, lane, given)
    end
  end
end

-- The picks that are still in their lanes. The set of a tenant may also list tasks that are not
-- READY; these are never leased. Reduces `picked` of each lane of tenants to the picks that remain.
local function only_ready(root, open, picks)
  local stale, kept = {}, {}
  for _, lane in ipairs(open) do
    local scores = lane.rules and lane.picked[1]
      and redis.call("ZMSCORE", root .. "lane:" .. lane.number, unpack(lane.picked)) or {}
    local own = lane.picked
    lane.picked = lane.rules and {} or own
    for i, score in ipairs(scores) do
      stale[own[i]] = not score
      lane.picked[#lane.picked + 1] = score and own[i] or nil
    end
  end
  for _, id in ipairs(picks) do
    kept[#kept + 1] = not stale[id] and id or nil
  end
  return kept
end

-- Leases the picks of a claim that has also checked lanes of tenants. Returns the rows, and the
-- number of picks that were held or are not READY.
local function lease_turns(root, now, picks, open, claim)
  local given, held, ready = {}, 0, only_ready(root, open, picks)
  if #ready > 0 then
    given, held = lease_picks(root, now, ready, open, claim)
    mark_picked(root, now, open, given, claim)
  end
  turns.finish_all(root, now, open, given)
  return given, held + #picks - #ready
end

-- Up to `n` tasks for `claim` from the heads of `lanes` in exact order, and the number of heads
-- that were held instead. A worker that must drain gets none.
local function take_heads(root, now, lanes, n, claim)
  if n < 1 then
    return {}, 0
  end
  local worker = redis.call("HMGET", root .. "worker:" .. claim.consumer,
    "alone", "drain:" .. claim.waiter)
  if worker[2] then
    return {}, 0
  end
  -- The worker's leases matter only where a lane is exclusive or the worker runs an exclusive task.
  local check_leases = worker[1]
  for _, lane in ipairs(lanes) do
    check_leases = check_leases or lane[4]
  end
  local holding = check_leases and exclusive.state_of(root, claim.consumer)
  if holding == "exclusive" then
    return {}, 0
  end
  if holding then
    claim.idle = holding == "none"
  end
  local open = open_lanes(root, now, lanes, n, claim)
  local only = #open == 1 and not (open[1].rules or claim.tight_funds) and open[1]
  local picks = only and pick_one_lane(root, now, only, n, claim)
    or pick_heads(root, now, open, n, claim)
  if open.with_tenants then
    return lease_turns(root, now, picks, open, claim)
  elseif #picks == 0 then
    return {}, 0
  end
  local given, held = lease_picks(root, now, picks, open, claim)
  mark_picked(root, now, open, given, claim)
  return given, held
end

-- Returns the rows of up to `n` tasks for `claim` from `lanes`, in exact order. Used by new claims
-- and for the answers to waiting ones. When heads were held, checks the tasks behind them, up to
-- ten times 250 heads whatever `n` is. Such heads belong to DAGs that have just been paused or
-- cancelled: tasks that become READY later do not enter their lanes.
function take.take(root, now, lanes, n, claim)
  local given, held = take_heads(root, now, lanes, n, claim)
  local rounds, last = 10, #given
  while held > 0 and #given < n and rounds > 0 do
    rounds = rounds - 1
    paused.hold_heads(root, lanes, 250)
    claim.begin = claim.begin and claim.begin - last
    local more
    more, held = take_heads(root, now, lanes, n - #given, claim)
    for _, row in ipairs(more) do
      given[#given + 1] = row
    end
    last = #more
  end
  if held > 0 and #given < n then
    -- More heads may have to be held, and claimable tasks may follow them.
    redis.call("ZADD", root .. "wakes", now, "*")
  end
  return given
end
