-- @include take
-- @include named
-- @include put_mail
-- @include waiter_of
-- @include handoff
-- Runs the claim of one parked waiter; mails it what it got. Returns how many tasks that was,
-- or nil when its wait is over.
local function answer_waiter(root, now, waiter, profile, lanes)
  local record = waiter_of(root, waiter)
  local waiting = root .. "waiting:" .. profile
  if record.profile ~= profile or not record["until"] or tonumber(record["until"]) <= now then
    redis.call("ZREM", waiting, waiter)
    return nil
  end
  local given = take(root, now, lanes, tonumber(record.n),
    { consumer = record.consumer, bits = record.bits })
  if #given == 0 then
    return 0
  end
  local line = named(given)
  redis.call("ZREM", waiting, waiter)
  redis.call("HSET", root .. "waiter:" .. waiter, "mailed", line, "until", 0)
  for _, row in ipairs(given) do
    redis.call("ZADD", root .. "handoffs", now + tonumber(record.handoff), handoff(row[1], row[2]))
  end
  put_mail(root, record.box, "tasks " .. record.seq .. " " .. line)
  return #given
end
