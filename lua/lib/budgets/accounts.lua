-- Budgets: reserve, spend and refund on the accounts of day, worker and DAG.

-- Adds the cost of a run, in micro-USD, to the accounts that pay it: those of the day, its worker
-- and its DAG. The reservation of the task covers the cost first; a `reserved` below 0 is the
-- excess of the cost over it. A `late` run has no reservation any more.
local function spend(root, now, id, flags, owner, amount, late)
  local key, day = root .. "task:" .. id, root .. "budget:day"
  local left, own = string.match(not late and redis.call("HGET", key, "reserved") or "0",
    "^(-?%d+)(.*)$")
  -- Stored bytes that are broken count as no reservation: the cost of a run is counted in any case.
  left, own = tonumber(left or 0), own or ""
  local covered = math.max(0, math.min(left, amount))
  if not late then
    redis.call("HSET", key, "reserved", string.format("%.0f", left - amount) .. own)
  end
  if redis.call("HGET", day, "date") ~= values.day_of(now) then
    redis.call("HSET", day, "date", values.day_of(now), "spent", 0)
    redis.call("HDEL", day, "told")
  end
  local accounts, dag = { [day] = covered }, tasks.dag_of(flags)
  local worker = root .. "budget:worker=" .. owner
  if redis.call("EXISTS", worker) == 1 then
    accounts[worker] = own ~= "" and covered or 0
  end
  if dag and redis.call("EXISTS", root .. "dag:" .. dag) == 1 then
    accounts[root .. "dag:" .. dag] = covered
  end
  for account, part in pairs(accounts) do
    redis.call("HINCRBY", account, "spent", string.format("%.0f", amount))
    if part > 0 then
      redis.call("HINCRBY", account, "reserved", string.format("%.0f", -part))
    end
  end
end

-- The amounts to refund, by the key of the account. `refunds` maps the flags of tasks to their
-- reservations, see accounts.reserve_for, and how often each occurs. An overdrawn one refunds
-- nothing.
local function refund_sums(root, refunds)
  local sums = {}
  local function add(key, sum)
    sums[key] = (sums[key] or 0) + sum
  end
  for flags, texts in pairs(refunds) do
    local dag = tasks.dag_of(flags)
    for text, times in pairs(texts) do
      local left, worker = string.match(text, "^(%d+) ?(.*)$")
      local sum = tonumber(left or 0) * times
      if sum > 0 then
        add(root .. "budget:day", sum)
        if worker ~= "" then
          add(root .. "budget:worker=" .. worker, sum)
        end
        if dag then
          add(root .. "dag:" .. dag, sum)
        end
      end
    end
  end
  return sums
end

-- Refunds the reservations that a call has collected, see refund_sums. Returns those of the
-- accounts that ran short before: "day", "worker=<name>", or the ULID of a DAG.
function accounts.refund(root, refunds)
  local any, short = redis.call("EXISTS", root .. "short") == 1, {}
  for key, sum in pairs(refund_sums(root, refunds)) do
    local account = string.sub(key, #root + 1)
    local left = redis.call("HINCRBY", key, "reserved", string.format("%.0f", -sum))
    account = string.match(account, "^dag:(.+)$") or string.match(account, "^budget:(.+)$")
    local worker = string.find(account, "^worker=") ~= nil
    local row = worker and left <= 0 and redis.call("HMGET", key, "ceiling", "spent")
    if row and not row[1] and (row[2] or "0") == "0" then
      redis.call("DEL", key)
    end
    if any and redis.call("SISMEMBER", root .. "short", account) == 1 then
      short[#short + 1] = account
    end
  end
  return short
end

-- Reserves amounts, by the name of the account's key, for tasks that were just leased.
function accounts.reserve(root, sums)
  for name, sum in pairs(sums) do
    redis.call("HINCRBY", root .. name, "reserved", string.format("%.0f", sum))
  end
end

-- Adds the expected cost of a task, by its row, to the `sums` of the accounts that pay it. Returns
-- the reservation that is stored with the task: "<micro-USD>", and its worker if that has an
-- account. `claim` caches what is the same for all tasks of a call or of a price.
function accounts.reserve_for(root, row, claim, sums)
  if claim.account == nil then
    local account = "budget:worker=" .. claim.consumer
    claim.account = redis.call("EXISTS", root .. account) == 1 and account
    claim.kept = {}
  end
  local kept = claim.kept[row[8]]
  if not kept then
    local text = string.match(row[8], "^%d+") or "0"
    kept = { tonumber(text), claim.account and text .. " " .. claim.consumer or text }
    claim.kept[row[8]] = kept
  end
  local dag, price = tasks.dag_of(row[3]), kept[1]
  sums["budget:day"] = (sums["budget:day"] or 0) + price
  if claim.account then
    sums[claim.account] = (sums[claim.account] or 0) + price
  end
  if dag then
    sums["dag:" .. dag] = (sums["dag:" .. dag] or 0) + price
  end
  return kept[2]
end

-- What remains of an account, "day" or "worker=<name>", in micro-USD: its ceiling minus what was
-- spent and what is reserved for leased tasks; nil where it has no ceiling. Costs of an earlier day
-- do not count for the day's account.
function accounts.remaining(root, now, account)
  local row = redis.call("HMGET", root .. "budget:" .. account, "ceiling", "spent", "reserved",
    "date")
  if not row[1] then
    return nil
  end
  local past = account == "day" and row[4] ~= values.day_of(now)
  return row[1] - (past and 0 or row[2] or 0) - (row[3] or 0)
end

-- What remains of the budget of a DAG, in micro-USD; nil where it has none.
function accounts.dag_remaining(root, dag)
  local row = redis.call("HMGET", root .. "dag:" .. dag, "budget", "spent", "reserved")
  return row[1] and row[1] - (row[2] or 0) - (row[3] or 0) or nil
end

-- Whether the DAG that the `flags` of a task name can pay it, after the tasks before it in this
-- call. `seen` caches what remains of each DAG; `free` collects the flags that need no check.
function accounts.dag_pays(root, id, flags, seen, free)
  local dag = tasks.dag_of(flags)
  local left = dag and seen["$" .. dag]
  if dag and left == nil then
    left = accounts.dag_remaining(root, dag) or false
    seen["$" .. dag] = left
  end
  if not left then
    free[flags] = true
    return true
  end
  local price = tasks.has_flag(flags, "c") and accounts.price_of(root, id) or 0
  if price > left then
    return false
  end
  seen["$" .. dag] = left - price
  return true
end

-- Adds the cost that a run reports, { micro-USD, tokens in, tokens out } as text, to its task and
-- to the accounts that pay it; see spend for `late`.
function accounts.note_cost(root, now, id, flags, owner, cost, late)
  for i, name in ipairs({ "micro_usd", "tokens_in", "tokens_out" }) do
    if cost[i] ~= "0" then
      redis.call("HINCRBY", root .. "notes:" .. id, name, cost[i])
    end
  end
  if cost[1] ~= "0" then
    spend(root, now, id, flags, owner, tonumber(cost[1]), late)
  end
end

-- Writes the expected and the maximum cost of a new task, "<estimate>:<most>", and flags it. A task
-- that is `plain` otherwise has no flags yet.
function accounts.write_price(key, price, plain)
  local flags = not plain and redis.call("HGET", key, "flags") or ""
  redis.call("HSET", key, "price", price, "flags", flags .. "c")
end

-- The expected and the maximum cost of a task, in micro-USD; 0 for no maximum. A task without a
-- price has an expected cost of nothing.
function accounts.price_of(root, id)
  local price = redis.call("HGET", root .. "task:" .. id, "price")
  local estimate, most = string.match(price or "0:0", "^(%d+):(%d+)$")
  return tonumber(estimate or 0), tonumber(most or 0)
end

-- Records that the account of `funds` kept a task from being claimed. Waiting claims are answered
-- when the lease of one of its tasks ends, when it is raised and, for the day's account, when the
-- day ends.
local function note_short(root, now, funds)
  local account = funds.account
  funds.short = true
  redis.call("SADD", root .. "short", account)
  if account == "day" then
    redis.call("ZADD", root .. "wakes", "LT", (math.floor(now / 86400000) + 1) * 86400000, "$day")
  end
end

-- Checks up to a hundred accounts that have kept a task from being claimed. Where a DAG can pay one
-- of its tasks after all, that task is scheduled to return. Otherwise emits once that the account
-- is exhausted, but only while nothing is reserved for leased tasks: their end could refund
-- something. Emits it again after the account was raised, or on another day.
function accounts.emit_short(root, events)
  for _, account in ipairs(redis.call("SRANDMEMBER", root .. "short", 100)) do
    local dag = not (account == "day" or string.find(account, "^worker="))
    local key = root .. (dag and "dag:" or "budget:") .. account
    local row = redis.call("HMGET", key, "reserved", "told")
    local first = dag and redis.call("ZRANGE", root .. "unpaid:" .. account, 0, 0, "WITHSCORES")
    if dag and not first[1] then
      redis.call("SREM", root .. "short", account)
    elseif dag and tonumber(first[2]) <= (accounts.dag_remaining(root, account) or math.huge) then
      redis.call("ZADD", root .. "wakes", 0, "$" .. account)
    elseif not row[2] and tonumber(row[1] or "0") <= 0 then
      redis.call("HSET", key, "told", 1)
      local kind = dag and "dag" or string.match(account, "^%a+")
      event.emit(root, events, "budget.exhausted", account, kind)
    end
  end
end

-- Handles an account that ran short and has money again. Tasks that its DAG could not pay return to
-- their lanes, at most `how.back` tasks of all DAGs in a call; the promoter continues with the
-- rest. For the accounts of a worker and of the day all lanes are checked. `how.touched` collects
-- the lanes. A DAG that still has unpaid tasks stays among the accounts that ran short.
function accounts.refunded(root, account, how)
  if account == "day" or string.find(account, "^worker=") then
    redis.call("SREM", root .. "short", account)
    return lanes.touch_type(root, "*", how.touched)
  end
  local more, seen = how.back <= 0, 0
  if not more then
    more, seen = accounts.return_unpaid(root, account, how.back, how)
  end
  -- A DAG that can pay none of its tasks was checked, too.
  how.back = how.back - math.max(1, seen)
  if more then
    redis.call("ZADD", root .. "wakes", 0, "$" .. account)
  end
  if redis.call("EXISTS", root .. "unpaid:" .. account) == 0 then
    redis.call("SREM", root .. "short", account)
  end
end

-- Returns tasks to their lanes that their DAG could not pay and can pay now, the cheapest first, at
-- most `limit`. `how.touched` collects the lanes. Returns whether more of them may be payable, and
-- how many were checked.
function accounts.return_unpaid(root, dag, limit, how)
  local unpaid, left = root .. "unpaid:" .. dag, accounts.dag_remaining(root, dag) or math.huge
  local page = left < 0 and {} or redis.call("ZRANGEBYSCORE", unpaid, "-inf",
    left == math.huge and "+inf" or string.format("%.0f", left), "LIMIT", 0, limit)
  for at, id in ipairs(page) do
    local row = redis.call("HMGET", root .. "task:" .. id, "state", "lane", "score", "flags")
    local price = accounts.price_of(root, id)
    if row[1] == "READY" and price > left then
      return false, at
    end
    redis.call("ZREM", unpaid, id)
    if row[1] == "READY" then
      left = left - price
      redis.call("HINCRBY", root .. "stats", row[2] .. ":READY", -1)
      if paused.holding_dag(root, row[4], how) then
        paused.hold(root, dag, id, row[2])
      else
        lanes.enter(root, row[2], { row[3], id })
        how.touched[row[2]] = true
      end
    end
  end
  return #page == limit, #page
end

-- The funds of a worker for tasks that it claims now: { left, account } of the tighter one of its
-- own budget and that of the day; nil where neither has a ceiling.
function accounts.tightest(root, now, consumer)
  local funds
  for _, account in ipairs({ "worker=" .. consumer, "day" }) do
    local left = accounts.remaining(root, now, account)
    if left and (not funds or left < funds.left) then
      funds = { left = left, account = account }
    end
  end
  return funds
end

-- Whether the funds can pay any task of a lane. A task of cost class k costs at least 2^(k-1) and
-- less than 2^k micro-USD, a task without a class nothing; overdrawn funds pay no task at all.
-- Where `n` tasks might exceed the funds, these become `tight`: then the price of each task is
-- checked.
function accounts.can_afford(root, now, funds, lane, n)
  local class = lane[7]
  if funds.left < (class and 2 ^ (class - 1) or 0) then
    -- An empty lane has no task that waits for money.
    if redis.call("EXISTS", root .. "lane:" .. lane[1]) == 1 then
      note_short(root, now, funds)
    end
    return false
  end
  funds.tight = funds.tight or (class and n * 2 ^ class > funds.left)
  return true
end

-- Handles a lane whose head exceeds the funds: returns "next" where another task may be cheaper,
-- "skip" after a hundred that are not.
function accounts.skip_unaffordable(root, now, funds, lane)
  note_short(root, now, funds)
  lane.dear = (lane.dear or 0) + 1
  if lane.rules then
    turns.skip_head(root, lane)
  end
  return lane.dear < 100 and "next" or "skip"
end
