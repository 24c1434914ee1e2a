-- Budgets: reserve, spend and refund on the accounts of day, worker and DAG.

-- Adds what a run has cost, in micro-USD, to the accounts that pay it: the day's, its worker's,
-- its DAG's. What was set aside for it is used up first; `reserved` below 0 is by how much it has
-- cost more. A `late` run has nothing set aside any more.
local function spend(root, now, id, flags, owner, amount, late)
  local key, day = root .. "task:" .. id, root .. "budget:day"
  local left, own = string.match(not late and redis.call("HGET", key, "reserved") or "0",
    "^(-?%d+)(.*)$")
  -- Broken bytes are nothing set aside: what a run has cost is counted all the same.
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

-- What is to be given back, by the key of the account: `refunds` has by flags of tasks how often
-- which text was kept with them, see set_aside. What was overdrawn gives nothing back.
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

-- Gives back what a call has collected in `refunds`, see refund_sums. Returns the accounts among
-- them that ran short: "day", "worker=<name>", or a DAG's ULID.
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

-- Sets sums aside, by the name of the account's key: for tasks that were just handed out.
function accounts.reserve(root, sums)
  for name, sum in pairs(sums) do
    redis.call("HINCRBY", root .. name, "reserved", string.format("%.0f", sum))
  end
end

-- Adds what a task is expected to cost, by its row, to the `sums` of the accounts that pay it, and
-- returns what is kept with it: "<micro-USD>", and its worker where that has an account. What is
-- the same for all tasks of a call, or of a price, is found out once.
function accounts.reserve_for(root, row, who, sums)
  if who.account == nil then
    local account = "budget:worker=" .. who.consumer
    who.account = redis.call("EXISTS", root .. account) == 1 and account
    who.kept = {}
  end
  local kept = who.kept[row[8]]
  if not kept then
    local text = string.match(row[8], "^%d+") or "0"
    kept = { tonumber(text), who.account and text .. " " .. who.consumer or text }
    who.kept[row[8]] = kept
  end
  local dag, price = tasks.dag_of(row[3]), kept[1]
  sums["budget:day"] = (sums["budget:day"] or 0) + price
  if who.account then
    sums[who.account] = (sums[who.account] or 0) + price
  end
  if dag then
    sums["dag:" .. dag] = (sums["dag:" .. dag] or 0) + price
  end
  return kept[2]
end

-- What is left of an account, "day" or "worker=<name>", in micro-USD: its ceiling less what was
-- spent and what is set aside for tasks in hand; nil where it has no ceiling. What was spent on
-- another day than this counts no more.
function accounts.remaining(root, now, account)
  local row = redis.call("HMGET", root .. "budget:" .. account, "ceiling", "spent", "reserved",
    "date")
  if not row[1] then
    return nil
  end
  local past = account == "day" and row[4] ~= values.day_of(now)
  return row[1] - (past and 0 or row[2] or 0) - (row[3] or 0)
end

-- What is left of the budget of a DAG, in micro-USD; nil where it has none.
function accounts.dag_remaining(root, dag)
  local row = redis.call("HMGET", root .. "dag:" .. dag, "budget", "spent", "reserved")
  return row[1] and row[1] - (row[2] or 0) - (row[3] or 0) or nil
end

-- Whether the DAG that the `flags` of a task name can pay it, after those before it in this call.
-- `seen` remembers what is left; `free` are flags of which there is nothing to ask.
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

-- Adds what a run says it has cost, { micro-USD, tokens in, tokens out } as text, to its task and
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

-- Writes down what a new task is expected and allowed to cost, "<estimate>:<most>". One that is
-- `plain` otherwise has no flags yet.
function accounts.write_price(key, price, plain)
  local flags = not plain and redis.call("HGET", key, "flags") or ""
  redis.call("HSET", key, "price", price, "flags", flags .. "c")
end

-- What a task is expected to cost, and the most that it may, in micro-USD; 0 for no limit. A task
-- that says neither is expected to cost nothing.
function accounts.price_of(root, id)
  local price = redis.call("HGET", root .. "task:" .. id, "price")
  local estimate, most = string.match(price or "0:0", "^(%d+):(%d+)$")
  return tonumber(estimate or 0), tonumber(most or 0)
end

-- Remembers that the account of a purse kept something from being handed out: who waits is answered
-- when one of its tasks leaves the hand, when it is raised, and a day's when the day is over.
local function note_short(root, now, funds)
  local account = funds.account
  funds.short = true
  redis.call("SADD", root .. "short", account)
  if account == "day" then
    redis.call("ZADD", root .. "wakes", "LT", (math.floor(now / 86400000) + 1) * 86400000, "$day")
  end
end

-- Looks at accounts that have kept something from being handed out, a hundred in a call. Where a
-- DAG can pay something of it after all, that returns; else it is said once that the account is
-- used up, while nothing is set aside for tasks in hand: then no end of theirs gives anything
-- back. It is said again after the account was raised, or on another day.
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

-- An account that ran short has money again: what its DAG could not pay returns to its lanes, not
-- more than `how.back` tasks in a call, whatever the number of DAGs; the promoter goes on with the
-- rest. For a worker's and the day's all lanes are looked at. `how.touched` collects the lanes. An
-- account that has something left to pay stays among those that ran short.
function accounts.refunded(root, account, how)
  if account == "day" or string.find(account, "^worker=") then
    redis.call("SREM", root .. "short", account)
    return lanes.touch_type(root, "*", how.touched)
  end
  local more, seen = how.back <= 0, 0
  if not more then
    more, seen = accounts.return_unpaid(root, account, how.back, how)
  end
  -- One of which nothing can be paid was looked at, too.
  how.back = how.back - math.max(1, seen)
  if more then
    redis.call("ZADD", root .. "wakes", 0, "$" .. account)
  end
  if redis.call("EXISTS", root .. "unpaid:" .. account) == 0 then
    redis.call("SREM", root .. "short", account)
  end
end

-- Puts tasks back into their lanes that their DAG could not pay and can now, the cheapest first
-- and so many. `how.touched` collects the lanes. Returns whether more of them may be paid, and how
-- many it looked at.
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

-- What a worker can pay for tasks now: { left, account } by the tighter of its own budget and the
-- day's; nil where neither bounds it.
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

-- Whether anything of a lane can be paid from a purse: of cost class k is what costs at least
-- 2^(k-1) and less than 2^k micro-USD, nothing for none; overdrawn, nothing at all can. Where `n`
-- of them might be more than is left, the purse is `tight`: each price is looked at then.
function accounts.can_afford(root, now, funds, lane, n)
  local class = lane[7]
  if funds.left < (class and 2 ^ (class - 1) or 0) then
    -- An empty lane keeps nobody.
    if redis.call("EXISTS", root .. "lane:" .. lane[1]) == 1 then
      note_short(root, now, funds)
    end
    return false
  end
  funds.tight = funds.tight or (class and n * 2 ^ class > funds.left)
  return true
end

-- The head of a lane cannot be paid from a purse: "next" where another may be cheaper, "skip" where
-- a hundred were looked at in vain.
function accounts.skip_unaffordable(root, now, funds, lane)
  note_short(root, now, funds)
  lane.dear = (lane.dear or 0) + 1
  if lane.rules then
    turns.skip_head(root, lane)
  end
  return lane.dear < 100 and "next" or "skip"
end
