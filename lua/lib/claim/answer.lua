-- Answers waiting claims when work or a gate becomes available.

-- Answers parked claims for a set of lanes; see answer_waiting.
function answer.touched(root, now, touched, tries)
  local lanes = {}
  for lane in pairs(touched) do
    lanes[#lanes + 1] = lane
  end
  return #lanes > 0 and answer.lanes(root, now, lanes, tries)
end

-- Runs the claim of one parked waiter; mails it what it got. Returns how many tasks that was, nil
-- when its wait is over, false when it goes behind the others because its own budget is short.
local function answer_one(root, now, waiter, profile, lanes)
  local record = waiting.read(root, waiter)
  if record.profile ~= profile or not record["until"] or tonumber(record["until"]) <= now then
    redis.call("ZREM", root .. "waiting:" .. profile, waiter)
    return nil
  end
  local who = { consumer = record.consumer, waiter = waiter, bits = record.bits,
    started = record.start == "1", begin = tonumber(record.begin) }
  local given = take.take(root, now, lanes, tonumber(record.n), who)
  if #given > 0 then
    waiting.deliver(root, now, waiter, record, given)
  elseif who.money and who.money.short and who.money.account ~= "day" then
    -- The next one is asked first from now on: it may have money.
    redis.call("ZADD", root .. "waiting:" .. profile, "XX", now, waiter)
    return false
  end
  return #given
end

-- Adds to `found` the profiles that serve a lane and have someone waiting.
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

-- Answers parked claims that these lanes could serve, longest waiting first, while there is
-- something in them. `tries` bounds it; returns whether more may be left to answer: not where
-- nobody could be served or sent away, since the next call would find the same.
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

-- Whether anyone waits for work of these lanes: a quick look before the long answer.
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

-- Answers parked claims that these lanes could serve; see answer_waiting. Mostly nobody waits.
function answer.lanes(root, now, lanes, tries)
  return anyone_waits(root, lanes) and answer_all(root, now, lanes, tries)
end

-- Where tasks have left the hand other than completed, `how.freed`, who waits for a place or for
-- money that they had is answered now; and who waits for the lanes in `how.touched`. `most` has
-- { tries, woken, back }, see promote. Returns whether there is more than one call may do.
function answer.freed(root, now, how, most)
  if how.freed and redis.call("ZCOUNT", root .. "wakes", 0, 0) > 0 then
    how.back = most.back
    wake.due(root, now, how, most.woken)
  end
  return answer.touched(root, now, how.touched, most.tries)
end

-- Gives a `task` { id, entry, lane, definition } that was just written, and is in no lane yet, to
-- a parked claim. Returns false where the long answer must decide: its wait is over, it may be
-- given nothing, or there is something else that it may be given first.
local function deliver_new(root, now, waiter, profile, task)
  local record = waiting.read(root, waiter)
  if record.profile ~= profile or tonumber(record["until"]) <= now then
    return false
  end
  local mark = redis.call("HMGET", root .. "worker:" .. record.consumer, "alone",
    "drain:" .. waiter)
  if mark[1] or mark[2] then
    return false
  end
  local before = { root .. "paused", root .. "breakers", root .. "slowed", root .. "budgets" }
  for _, lane in ipairs(cjson.decode(redis.call("GET", root .. "profile:" .. profile) or "[]")) do
    if lane[4] or lane[5] then
      return false
    end
    before[#before + 1] = root .. "lane:" .. lane[1]
  end
  local id, entry, lane, definition = unpack(task)
  if redis.call("EXISTS", unpack(before)) > 0
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

-- Gives a `task` { id, entry, lane, definition } that was just written to `waiter`, who is parked
-- under the one `profile` of its lane; where that cannot be, or there are more, it stands in its
-- lane and they are answered. 1 where more who wait are to be answered.
function answer.deliver_first(root, now, task, score, waiter, profile, tries)
  if waiter and deliver_new(root, now, waiter, profile, task) then
    return 0
  end
  redis.call("ZADD", root .. "lane:" .. task[3], score, task[1])
  return answer.lanes(root, now, { task[3] }, tries) and 1 or 0
end
