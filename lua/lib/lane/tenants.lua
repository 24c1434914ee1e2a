-- Lanes of tasks with a `limit_key`: the READY tasks of each tenant and its first one.

-- Puts tasks of a lane of keys, a list of score, id, ..., among those of their keys.
function tenants.enter(root, lane, scores, known)
  local keys, order = {}, {}
  for at = 1, #scores, 2 do
    local key = known[scores[at + 1]] or tasks.tenant_of(root, scores[at + 1])
    local own = keys[key]
    if not own then
      own = {}
      keys[key], order[#order + 1] = own, key
    end
    own[#own + 1], own[#own + 2] = scores[at], scores[at + 1]
  end
  for _, key in ipairs(order) do
    redis.call("ZADD", root .. "keyed:" .. lane .. ":" .. key, unpack(keys[key]))
  end
  tenants.update_heads(root, lane, order)
end

-- Takes a task that has left its lane out of those of its key.
function tenants.leave(root, lane, id)
  local key = tasks.tenant_of(root, id)
  redis.call("ZREM", root .. "keyed:" .. lane .. ":" .. key, id)
  redis.call("ZREM", root .. "heads:" .. lane, id)
  tenants.update_heads(root, lane, { key })
end

-- Gives a task another score among those of its key, if it stands there.
function tenants.rescore(root, lane, score, id)
  local key = tasks.tenant_of(root, id)
  redis.call("ZADD", root .. "keyed:" .. lane .. ":" .. key, "XX", score, id)
  redis.call("ZADD", root .. "heads:" .. lane, "XX", score, id)
  tenants.update_heads(root, lane, { key })
end

-- A key of a lane has nothing to give, or is shut: it stands in line no more, if it did. `first` is
-- its first task, if any.
local function withdraw_tenant(root, lane, key, stood, first)
  if first then
    redis.call("ZREM", root .. "heads:" .. lane, first)
  end
  if stood then
    redis.call("ZREM", root .. "turns:" .. lane, key)
  end
end

-- Brings what a lane knows of some of its keys in step with their own tasks. A key that has
-- something to give and is not shut stands in `turns`, by how far its turns have come, and its
-- first task in `heads`. One that comes begins where the turns of all are, or where its own have
-- come to in other lanes or before, if that is further: it is not punished, and has saved nothing
-- up. It touches keyed:<n>:<key> heads:<n> turns:<n> turned shut:<n>.
function tenants.update_heads(root, lane, keys)
  local turns = root .. "turns:" .. lane
  local at = redis.call("ZMSCORE", turns, unpack(keys))
  local closed = redis.call("ZMSCORE", root .. "shut:" .. lane, unpack(keys))
  local heads, new = {}, {}
  for i, key in ipairs(keys) do
    local first = redis.call("ZRANGE", root .. "keyed:" .. lane .. ":" .. key, 0, 0, "WITHSCORES")
    if not first[1] or closed[i] then
      withdraw_tenant(root, lane, key, at[i], first[1])
    else
      heads[#heads + 1], heads[#heads + 2] = first[2], first[1]
      new[#new + 1] = not at[i] and key or nil
    end
  end
  if #heads > 0 then
    redis.call("ZADD", root .. "heads:" .. lane, unpack(heads))
  end
  if #new > 0 then
    local were, begin = redis.call("ZMSCORE", root .. "turned", "@now", unpack(new)), {}
    for i, key in ipairs(new) do
      begin[2 * i - 1] = math.max(tonumber(were[1] or "0"), tonumber(were[i + 1] or "0"))
      begin[2 * i] = key
    end
    redis.call("ZADD", turns, unpack(begin))
  end
end

-- Gives a key its turns again in all lanes in which it is shut; they are noted in `touched`, or the
-- promoter answers who waits.
function tenants.reopen(root, key, touched)
  for _, lane in ipairs(lanes.with_tenants(root, "*")) do
    if redis.call("ZREM", root .. "shut:" .. lane, key) == 1 then
      tenants.update_heads(root, lane, { key })
      if touched then
        touched[lane] = true
      else
        redis.call("ZADD", root .. "wakes", 0, lane)
      end
    end
  end
end

-- Gives the keys of a lane their turns again whose time has come, `most` of them; all whose time
-- was told by other `rules` than the ones of that name.
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

-- The time of keys of a lane has come; the lane is woken again when that of the next has.
function tenants.schedule_wake(root, now, lane)
  tenants.reopen_due(root, now, lane, 1000)
  local following = redis.call("ZRANGE", root .. "shut:" .. lane, 0, 0, "WITHSCORES")[2]
  if following and tonumber(following) < math.huge then
    redis.call("ZADD", root .. "wakes", following, lane)
  end
end

-- Tasks with a key leave the hand. Where a key was found to have as many in hand as may be, it has
-- its turns again: its lanes are noted in `touched`, or the promoter answers who waits.
function tenants.leave_running(root, ids, touched)
  local hands = {}
  for _, id in ipairs(ids) do
    local key = tasks.tenant_of(root, id)
    hands[key] = hands[key] or {}
    hands[key][#hands[key] + 1] = id
  end
  local full = redis.call("EXISTS", root .. "full") == 1
  for key, own in pairs(hands) do
    redis.call("ZREM", root .. "hand:" .. key, unpack(own))
    if full and redis.call("SREM", root .. "full", key) == 1 then
      tenants.reopen(root, key, touched)
    end
  end
end
