-- @include day_of
-- @include dag_of
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
  if redis.call("HGET", day, "date") ~= day_of(now) then
    redis.call("HSET", day, "date", day_of(now), "spent", 0)
    redis.call("HDEL", day, "told")
  end
  local accounts, dag = { [day] = covered }, dag_of(flags)
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
