-- @include take
-- @include waiter_of
-- @include mail_claim
-- Runs the claim of one parked waiter; mails it what it got. Returns how many tasks that was, nil
-- when its wait is over, false when it goes behind the others because its own budget is short.
local function answer_waiter(root, now, waiter, profile, lanes)
  local record = waiter_of(root, waiter)
  if record.profile ~= profile or not record["until"] or tonumber(record["until"]) <= now then
    redis.call("ZREM", root .. "waiting:" .. profile, waiter)
    return nil
  end
  local who = { consumer = record.consumer, waiter = waiter, bits = record.bits,
    started = record.start == "1", begin = tonumber(record.begin) }
  local given = take(root, now, lanes, tonumber(record.n), who)
  if #given > 0 then
    mail_claim(root, now, waiter, record, given)
  elseif who.money and who.money.short and who.money.account ~= "day" then
    -- The next one is asked first from now on: it may have money.
    redis.call("ZADD", root .. "waiting:" .. profile, "XX", now, waiter)
    return false
  end
  return #given
end
