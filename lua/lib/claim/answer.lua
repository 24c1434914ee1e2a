-- Answers waiting claims when tasks become claimable or a gate opens.

-- Answers waiting claims of the lanes in the set `touched`; see answer_all for `tries` and the
-- result.
function answer.touched(root, now, touched, tries)
  local lanes = {}
  for lane in pairs(touched) do
    lanes[#lanes + 1] = lane
  end
  return #lanes > 0 and answer.lanes(root, now, lanes, tries)
end

-- Runs one waiting claim again and delivers the tasks that it gets. Returns their number; nil when
-- its wait has ended; false when it moves behind the other waiting claims because its worker's own
-- budget is short.
local function answer_one(root, now, waiter, profile, lanes)
  local record = waiting.read(root, waiter)
  if record.profile ~= profile or not record["until"] or tonumber(record["until"]) <= now then
    redis.call("ZREM", root .. "waiting:" .. profile, waiter)
    return nil
  end
  local claim = { consumer = record.consumer, waiter = waiter, bits = record.bits,
    started = record.start == "1", begin = tonumber(record.begin) }
  local given = take.take(root, now, lanes, tonumber(record.n), claim)
  if #given > 0 then
    waiting.deliver(root, now, waiter, record, given)
  elseif claim.funds and claim.funds.short and claim.funds.account ~= "day" then
    -- The next claim is tried first from now on: its worker may have budget left.
    redis.call("ZADD", root .. "waiting:" .. profile, "XX", now, waiter)
    return false
  end
  return #given
end

-- Adds to `found` the profiles that serve a lane and have a waiting claim.
local function waiting_profiles(root, lane, found, seen)
  for _, name in ipairs(redis.call("SMEMBERS", root .. "profiles:" .. lane)) do
    local first = not seen[name]
      and redis.call("ZRANGE", root .. "waiting:" .. name, 0, 0, "WITHSCORES")
    if first and first[1] then
      local lanes = redis.call("GET", root .. "profile:" .. name)
      found[#found + 1] = { name = name, waiter = first[1], since = tonumber(first[2]),
        lanes = cjson.decode(lanes or "[]"), skip = 0 }
    end
    seen[name] = true
  end
end

-- Answers waiting claims that these lanes can serve, the longest waiting first, until the lanes are
-- empty. Checks `tries` claims at most. Returns whether another call may answer more; false when
-- this call answered no claim and ended no wait, since the next call would find the same.
local function answer_all(root, now, lanes, tries)
  local profiles, seen, moved = {}, {}, false
  for _, lane in ipairs(lanes) do
    waiting_profiles(root, lane, profiles, seen)
  end
  while #profiles > 0 do
    if tries == 0 then
      return moved
    end
    tries = tries - 1
    local best = 1
    for i = 2, #profiles do
      best = profiles[i].since < profiles[best].since and i or best
    end
    local profile = profiles[best]
    local given = answer_one(root, now, profile.waiter, profile.name, profile.lanes)
    profile.skip = profile.skip + (given == 0 and 1 or 0)
    seen[profile.waiter] = given == false
    moved = moved or given ~= 0 and given ~= false
    local left = 0
    for _, lane in ipairs(lanes) do
      left = left + redis.call("ZCARD", root .. "lane:" .. lane)
    end
    local following = redis.call("ZRANGE", root .. "waiting:" .. profile.name,
      profile.skip, profile.skip, "WITHSCORES")
    if left == 0 then
      return false
    elseif following[1] and not seen[following[1]] then
      profile.waiter, profile.since = following[1], tonumber(following[2])
    else
      table.remove(profiles, best)
    end
  end
  return false
end

-- Whether a claim waits for tasks of these lanes: a cheap check before answer_all. Removes expired
-- profiles of the lanes.
local function anyone_waits(root, lanes)
  for _, lane in ipairs(lanes) do
    for _, profile in ipairs(redis.call("SMEMBERS", root .. "profiles:" .. lane)) do
      if redis.call("EXISTS", root .. "waiting:" .. profile) == 1 then
        return true
      end
      if redis.call("EXISTS", root .. "profile:" .. profile) == 0 then
        redis.call("SREM", root .. "profiles:" .. lane, profile)
      end
    end
  end
  return false
end

-- Answers waiting claims that these lanes can serve, see answer_all. Usually no claim waits.
function answer.lanes(root, now, lanes, tries)
  return anyone_waits(root, lanes) and answer_all(root, now, lanes, tries)
end

-- Answers waiting claims for the lanes in `how.touched` and, when leases have ended without a
-- completion (`how.freed`), for the gates and accounts that this may have opened. `most` is
-- { tries, woken, back }, see lua/task/promote.lua. Returns whether work is left for another call.
function answer.freed(root, now, how, most)
  if how.freed and redis.call("ZCOUNT", root .. "wakes", 0, 0) > 0 then
    how.back = most.back
    wake.due(root, now, how, most.woken)
  end
  return answer.touched(root, now, how.touched, most.tries)
end

-- Delivers a `task` { id, entry, lane, definition } that was just written, and is in no lane yet,
-- to a waiting claim. Returns false where the full claim must decide: the wait has ended, the
-- worker drains or runs an exclusive task, a lane is exclusive or limited, or something may come
-- before the task: a gate, a budget or another task.
local function deliver_new(root, now, waiter, profile, task)
  local record = waiting.read(root, waiter)
  if record.profile ~= profile or tonumber(record["until"]) <= now then
    return false
  end
  local worker = redis.call("HMGET", root .. "worker:" .. record.consumer, "alone",
    "drain:" .. waiter)
  if worker[1] or worker[2] then
    return false
  end
  local blockers = { root .. "paused", root .. "breakers", root .. "slowed", root .. "budgets" }
  for _, lane in ipairs(cjson.decode(redis.call("GET", root .. "profile:" .. profile) or "[]")) do
    if lane[4] or lane[5] then
      return false
    end
    blockers[#blockers + 1] = root .. "lane:" .. lane[1]
  end
  local id, entry, lane, definition = unpack(task)
  if redis.call("EXISTS", unpack(blockers)) > 0
    or lease.take_entries(root, record.consumer, { entry }) then
    return false
  end
  local started = record.start == "1"
  local row = lease.write(root, id, { entry, false, false, definition },
    { consumer = record.consumer, bits = record.bits, started = started,
      at = string.format("%.0f", now) }, (tonumber(record.begin) or 1) > 0)
  lanes.count(root, lane, started and "RUNNING" or "CLAIMED", 1)
  waiting.deliver(root, now, waiter, record, { row })
  return true
end

-- Delivers a just written `task` { id, entry, lane, definition } to `waiter`, a claim that waits
-- under the only `profile` of the task's lane. If that fails, or `waiter` is false because the lane
-- has several profiles, adds the task to its lane and answers waiting claims. Returns 1 when
-- another call may answer more, else 0.
function answer.deliver_first(root, now, task, score, waiter, profile, tries)
  if waiter and deliver_new(root, now, waiter, profile, task) then
    return 0
  end
  redis.call("ZADD", root .. "lane:" .. task[3], score, task[1])
  return answer.lanes(root, now, { task[3] }, tries) and 1 or 0
end
