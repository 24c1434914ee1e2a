-- Lanes of tasks with a `limit_key`: the READY tasks of each tenant and its first one.

-- Adds tasks of a lane of tenants, a list of score, id, ..., to the tasks of their tenants. `known`
-- has the tenants of some tasks by id.
function tenants.enter(root, lane, scores, known)
  local by_tenant, order = {}, {}
  for at = 1, #scores, 2 do
    local tenant = known[scores[at + 1]] or tasks.tenant_of(root, scores[at + 1])
    local own = by_tenant[tenant]
    if not own then
      own = {}
      by_tenant[tenant], order[#order + 1] = own, tenant
    end
    own[#own + 1], own[#own + 2] = scores[at], scores[at + 1]
  end
  for _, tenant in ipairs(order) do
    redis.call("ZADD", root .. "keyed:" .. lane .. ":" .. tenant, unpack(by_tenant[tenant]))
  end
  tenants.update_heads(root, lane, order)
end

-- Removes a task that has left its lane from the tasks of its tenant.
function tenants.leave(root, lane, id)
  local tenant = tasks.tenant_of(root, id)
  redis.call("ZREM", root .. "keyed:" .. lane .. ":" .. tenant, id)
  redis.call("ZREM", root .. "heads:" .. lane, id)
  tenants.update_heads(root, lane, { tenant })
end

-- Gives a task another score among the tasks of its tenant, if it is one of them.
function tenants.rescore(root, lane, score, id)
  local tenant = tasks.tenant_of(root, id)
  redis.call("ZADD", root .. "keyed:" .. lane .. ":" .. tenant, "XX", score, id)
  redis.call("ZADD", root .. "heads:" .. lane, "XX", score, id)
  tenants.update_heads(root, lane, { tenant })
end

-- Removes a tenant of a lane from `turns`, if it is in it, and its `first` task, if any, from
-- `heads`: the tenant has no READY task or is closed.
local function withdraw_tenant(root, lane, tenant, has_turn, first)
  if first then
    redis.call("ZREM", root .. "heads:" .. lane, first)
  end
  if has_turn then
    redis.call("ZREM", root .. "turns:" .. lane, tenant)
  end
end

-- Updates the indexes of a lane for these tenants from their tasks. A tenant that has READY tasks
-- and is not closed is in `turns` with its virtual time, and its first task in `heads`. A new
-- tenant starts at the current virtual time, or at its own one from other lanes or earlier turns if
-- that is later: absence neither costs it turns nor earns it any. Uses the keys keyed:<n>:<tenant>
-- heads:<n> turns:<n> turned shut:<n>.
function tenants.update_heads(root, lane, names)
  local turns = root .. "turns:" .. lane
  local at = redis.call("ZMSCORE", turns, unpack(names))
  local closed = redis.call("ZMSCORE", root .. "shut:" .. lane, unpack(names))
  local heads, new = {}, {}
  for i, tenant in ipairs(names) do
    local first = redis.call("ZRANGE", root .. "keyed:" .. lane .. ":" .. tenant, 0, 0,
      "WITHSCORES")
    if not first[1] or closed[i] then
      withdraw_tenant(root, lane, tenant, at[i], first[1])
    else
      heads[#heads + 1], heads[#heads + 2] = first[2], first[1]
      new[#new + 1] = not at[i] and tenant or nil
    end
  end
  if #heads > 0 then
    redis.call("ZADD", root .. "heads:" .. lane, unpack(heads))
  end
  if #new > 0 then
    local times, starts = redis.call("ZMSCORE", root .. "turned", "@now", unpack(new)), {}
    for i, tenant in ipairs(new) do
      starts[2 * i - 1] = math.max(tonumber(times[1] or "0"), tonumber(times[i + 1] or "0"))
      starts[2 * i] = tenant
    end
    redis.call("ZADD", turns, unpack(starts))
  end
end

-- Reopens a tenant in all lanes in which it is closed. Adds these lanes to `touched`; without it,
-- the promoter answers the waiting claims.
function tenants.reopen(root, tenant, touched)
  for _, lane in ipairs(lanes.with_tenants(root, "*")) do
    if redis.call("ZREM", root .. "shut:" .. lane, tenant) == 1 then
      tenants.update_heads(root, lane, { tenant })
      if touched then
        touched[lane] = true
      else
        redis.call("ZADD", root .. "wakes", 0, lane)
      end
    end
  end
end

-- Reopens the closed tenants of a lane whose time has come, up to `most` of them. All are due if
-- they were closed under rules of another name than `rules`.
function tenants.reopen_due(root, now, lane, most, rules)
  local closed = root .. "shut:" .. lane
  if redis.call("EXISTS", closed) == 0 then
    return
  end
  if rules and redis.call("HGET", root .. "rules", lane) ~= rules then
    redis.call("ZUNIONSTORE", closed, 1, closed, "WEIGHTS", 0)
    redis.call("HSET", root .. "rules", lane, rules)
  end
  local due = redis.call("ZRANGEBYSCORE", closed, "-inf", now, "LIMIT", 0, most)
  if #due > 0 then
    redis.call("ZREM", closed, unpack(due))
    tenants.update_heads(root, lane, due)
  end
end

-- Reopens the tenants of a lane whose time has come, and lets the lane wake when the next one is
-- due.
function tenants.schedule_wake(root, now, lane)
  tenants.reopen_due(root, now, lane, 1000)
  local following = redis.call("ZRANGE", root .. "shut:" .. lane, 0, 0, "WITHSCORES")[2]
  if following and tonumber(following) < math.huge then
    redis.call("ZADD", root .. "wakes", following, lane)
  end
end

-- Removes tasks whose leases ended from the leased tasks of their tenants. A tenant that was closed
-- at its concurrency limit is reopened: its lanes are added to `touched`; without it, the promoter
-- answers the waiting claims.
function tenants.leave_running(root, ids, touched)
  local by_tenant = {}
  for _, id in ipairs(ids) do
    local tenant = tasks.tenant_of(root, id)
    by_tenant[tenant] = by_tenant[tenant] or {}
    by_tenant[tenant][#by_tenant[tenant] + 1] = id
  end
  local full = redis.call("EXISTS", root .. "full") == 1
  for tenant, own in pairs(by_tenant) do
    redis.call("ZREM", root .. "hand:" .. tenant, unpack(own))
    if full and redis.call("SREM", root .. "full", tenant) == 1 then
      tenants.reopen(root, tenant, touched)
    end
  end
end
