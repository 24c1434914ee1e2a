-- @include take
-- @include waiter_of
-- @include mail_claim
-- Runs the claim of one parked waiter; mails it what it got. Returns how many tasks that was,
-- or nil when its wait is over.
local function answer_waiter(root, now, waiter, profile, lanes)
  local record = waiter_of(root, waiter)
  if record.profile ~= profile or not record["until"] or tonumber(record["until"]) <= now then
    redis.call("ZREM", root .. "waiting:" .. profile, waiter)
    return nil
  end
  local given = take(root, now, lanes, tonumber(record.n),
    { consumer = record.consumer, waiter = waiter, bits = record.bits,
      started = record.start == "1", begin = tonumber(record.begin) })
  if #given > 0 then
    mail_claim(root, now, waiter, record, given)
  end
  return #given
end
