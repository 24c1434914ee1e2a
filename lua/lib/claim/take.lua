-- The claim: picks the best tasks over lanes in exact order and leases them.

-- The lanes of a list of { number, rate, type, alone, limits, rules, cost class } that may be
-- served now with `n` tasks for `who`: none that is paused, at rest, slowed down, at its limit or
-- too dear. `alone` is false, or for how many ms a worker keeps its hands free for the lane's
-- tasks; `gates` is nil, or what lets only some pass. A lane of keys has `rules`, and the gates of
-- keys in `doors`; `keyed` where there is any. One that has any of this is `checked` at each pick.
-- Where prices must be looked at, `who` gets a purse.
local function open_lanes(root, now, lanes, n, who)
  local any = redis.call("EXISTS", root .. "paused", root .. "breakers", root .. "slowed",
    root .. "budgets") > 0
  for _, lane in ipairs(lanes) do
    any = any or lane[5]
  end
  local found = any and gates.of_lanes(root, now, lanes)
  local funds = any and accounts.tightest(root, now, who.consumer)
  local open, by_tenant = {}, nil
  for _, lane in ipairs(lanes) do
    local own = found and found[lane[1]]
    if (own or not found) and (not funds or accounts.can_afford(root, now, funds, lane, n)) then
      -- The number as text: it is a part of keys.
      local one = { number = lane[1] .. "", rate = lane[2], picked = {} }
      open[#open + 1] = one
      own = own and own[1] and own
      if own or lane[4] or lane[6] or lane[7] then
        by_tenant = by_tenant or {}
        one.exclusive_ms, one.gates, one.rules = lane[4], own, lane[6]
        one.by_tenant, one.priced = by_tenant, lane[7]
        one.checked = lane[4] or own or lane[6] or funds and lane[7]
        open.keyed, open.priced = open.keyed or lane[6], open.priced or lane[7]
      end
    end
  end
  if open.keyed then
    turns.group(root, open)
  end
  if funds then
    who.money, who.funds = funds, funds.tight and funds
  end
  return open
end

-- The first `n` tasks of a single lane: their order is the lane's, no score needs to be read.
local function pick_one_lane(root, now, lane, n, who)
  local key = root .. "lane:" .. lane.number
  n = lane.gates and gates.most(lane.gates, n) or n
  if n > 0 and not lane.exclusive_ms then
    lane.picked = redis.call("ZRANGE", key, "0", n == 1 and "0" or n - 1)
  elseif n > 0 and redis.call("ZCARD", key) > 0
    and exclusive.verdict(root, now, lane, 0, who) == "run" then
    lane.picked = redis.call("ZRANGE", key, 0, 0)
  end
  gates.pass(lane, #lane.picked)
  return lane.picked
end

-- Whether the head of a lane may be picked after `picked` others: nil for yes and on, "skip" for
-- no, "next" where another task or key of the lane may, or where the lane is full by now that lends
-- its group its priority; else what may_run_alone says: nothing is given beside a task that runs
-- alone.
local function lane_verdict(root, now, lane, head, picked, who)
  local lender = lane.group and lane.group.lender
  if lane.gates and not gates.open(lane.gates) then
    return "skip"
  elseif lane.rules and not gates.open(lane.turn.gates)
    or lender and not gates.open(lender.gates or {}) then
    return "next"
  end
  local price = who.funds and lane.priced and accounts.price_of(root, head)
  if price and price > who.funds.left then
    return accounts.skip_unaffordable(root, now, who.funds, lane)
  end
  local verdict = lane.exclusive_ms and exclusive.verdict(root, now, lane, picked, who) or nil
  if price and (not verdict or verdict == "run") then
    who.funds.left = who.funds.left - price
  end
  return verdict
end

-- The head of a lane was picked that has gates or keys.
local function pass_head(root, lane)
  gates.pass(lane, 1)
  if lane.rules then
    turns.take(root, lane)
  end
end

-- The `n` best tasks over several open lanes in exact order: lowest effective priority, then
-- lowest id; of a group of lanes by turns. Adds to each lane the ids `picked` from it.
local function pick_heads(root, now, open, n, who)
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
    local verdict = lane.checked and lane_verdict(root, now, lane, head[best], #picks, who)
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

-- Whether a task may be handed out as far as the DAG that its `flags` name lets it: not while that
-- is paused or is being given up. The first that is makes it run. `seen` remembers the answer for
-- the call.
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

-- Which of the picks can be handed out: their ids, rows and entries; and by id what holds back the
-- others: the DAG that is paused or closing, "$<dag>" for one that cannot pay; nil where nothing
-- does. Where some are `priced`, the price is read, too.
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

-- Takes what was picked out of its lane, and counts what was leased of it: neither what is held
-- back nor what was lost, if there is any.
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

-- Leases the picks to `who` { consumer, bits, started, begin, at }, where `at` is now as text;
-- returns one row a task, and how many of them were held back. A pick of a DAG that is paused or
-- closing, or cannot pay it, leaves its lane for those that are held; one without its entry is left
-- to the orphan sweep.
local function lease_picks(root, now, picks, open, who)
  local kept, rows, entries, held = sift_picks(root, picks, open.priced)
  local there = #kept > 0 and lease.take_entries(root, who.consumer, entries)
  local given, lost, sums = {}, nil, nil
  who.at = who.at or string.format("%.0f", now)
  for i, id in ipairs(kept) do
    local row = rows[i]
    if there and not there[row[1]] then
      redis.call("SADD", root .. "orphans", id)
      lost = lost or {}
      lost[id] = 1
    else
      if row[8] then
        sums = sums or {}
        row.reserved = accounts.reserve_for(root, row, who, sums)
      end
      given[#given + 1] = lease.write(root, id, row, who, not who.begin or i <= who.begin)
    end
  end
  if sums then
    accounts.reserve(root, sums)
  end
  for _, lane in ipairs(open) do
    leave_lane(root, lane, held, lost, who.started and "RUNNING" or "CLAIMED")
  end
  return given, #picks - #kept
end

-- Remembers of what was picked from the lanes what bears on later claims: the task that its worker
-- runs alone, and what has passed a gate.
local function mark_picked(root, now, open, given, who)
  for _, lane in ipairs(open) do
    if lane.exclusive_ms and lane.picked[1] then
      redis.call("HSET", root .. "worker:" .. who.consumer, "alone", lane.picked[1])
    end
    if lane.gates and lane.picked[1] then
      gates.mark(root, now, lane, given)
    end
  end
end

-- Of the picks of a claim those that stand in their lanes: what a key has beside these is not
-- READY, and is never given. Each lane of keys keeps in `picked` its own of them.
local function only_ready(root, open, picks)
  local stale, kept = {}, {}
  for _, lane in ipairs(open) do
    local there = lane.rules and lane.picked[1]
      and redis.call("ZMSCORE", root .. "lane:" .. lane.number, unpack(lane.picked)) or {}
    local own = lane.picked
    lane.picked = lane.rules and {} or own
    for i, score in ipairs(there) do
      stale[own[i]] = not score
      lane.picked[#lane.picked + 1] = score and own[i] or nil
    end
  end
  for _, id in ipairs(picks) do
    kept[#kept + 1] = not stale[id] and id or nil
  end
  return kept
end

-- Gives the picks of a claim to `who` that looked at lanes of keys too; the rows, and how many of
-- the picks were held back or are none.
local function lease_turns(root, now, picks, open, who)
  local given, held, ready = {}, 0, only_ready(root, open, picks)
  if #ready > 0 then
    given, held = lease_picks(root, now, ready, open, who)
    mark_picked(root, now, open, given, who)
  end
  turns.finish_all(root, now, open, given)
  return given, held + #picks - #ready
end

-- Up to `n` tasks for `who` from the heads of `lanes`, in exact order; and how many of the heads
-- were held back instead. A worker that was told to drain gets nothing.
local function take_heads(root, now, lanes, n, who)
  if n < 1 then
    return {}, 0
  end
  local mark = redis.call("HMGET", root .. "worker:" .. who.consumer,
    "alone", "drain:" .. who.waiter)
  if mark[2] then
    return {}, 0
  end
  -- Hands are looked at where it matters only: there is a lane for lost tasks, or one in hand.
  local look = mark[1]
  for _, lane in ipairs(lanes) do
    look = look or lane[4]
  end
  local holding = look and exclusive.state_of(root, who.consumer)
  if holding == "alone" then
    return {}, 0
  end
  if holding then
    who.solo = holding == "none"
  end
  local open = open_lanes(root, now, lanes, n, who)
  local one = #open == 1 and not (open[1].rules or who.funds) and open[1]
  local picks = one and pick_one_lane(root, now, one, n, who) or pick_heads(root, now, open, n, who)
  if open.keyed then
    return lease_turns(root, now, picks, open, who)
  elseif #picks == 0 then
    return {}, 0
  end
  local given, held = lease_picks(root, now, picks, open, who)
  mark_picked(root, now, open, given, who)
  return given, held
end

-- The claim itself: up to `n` tasks for `who` from `lanes`, in exact order. The one function
-- behind a claim and behind the answer to a parked one. Where heads were held back it looks at
-- what stands behind them, ten times 250 heads however few it wants: those of a DAG that is just
-- being paused or given up, since what becomes READY of one that is does not enter its lane.
function take.take(root, now, lanes, n, who)
  local given, held = take_heads(root, now, lanes, n, who)
  local rounds, last = 10, #given
  while held > 0 and #given < n and rounds > 0 do
    rounds = rounds - 1
    paused.hold_heads(root, lanes, 250)
    who.begin = who.begin and who.begin - last
    local more
    more, held = take_heads(root, now, lanes, n - #given, who)
    for _, row in ipairs(more) do
      given[#given + 1] = row
    end
    last = #more
  end
  if held > 0 and #given < n then
    -- There may be more to take out of the way, and something behind it.
    redis.call("ZADD", root .. "wakes", now, "*")
  end
  return given
end
