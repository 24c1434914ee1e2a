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
  local started = record.start == "1"
  local given = take(root, now, lanes, tonumber(record.n),
    { consumer = record.consumer, bits = record.bits, started = started })
  if #given == 0 then
    return 0
  end
  local line = named(given)
  redis.call("ZREM", waiting, waiter)
  redis.call("HSET", root .. "waiter:" .. waiter, "mailed", line, "until", 0)
  for _, row in ipairs(given) do
    redis.call("ZADD", root .. "handoffs", now + tonumber(record.handoff), handoff(row[1], row[2]))
  end
  -- To one that runs its tasks at once they come whole, with the time: it must not run old mail.
  local whole = started and string.format("\n%.0f ", now) .. cjson.encode(given) or ""
  put_mail(root, record.box, "tasks " .. record.seq .. " " .. line .. whole)
  return #given
end
