-- @include named
-- @include put_mail
-- @include handoff
-- Ends the wait of a parked claim and mails it what it was given, which it must confirm in time.
local function mail_claim(root, now, waiter, record, given)
  local line = named(given)
  redis.call("ZREM", root .. "waiting:" .. record.profile, waiter)
  redis.call("HSET", root .. "waiter:" .. waiter, "mailed", line, "until", 0)
  for _, row in ipairs(given) do
    redis.call("ZADD", root .. "handoffs", now + tonumber(record.handoff), handoff(row[1], row[2]))
  end
  -- To one that runs its tasks at once they come whole, with the time: it must not run old mail.
  local whole = record.start == "1" and string.format("\n%.0f ", now) .. cjson.encode(given) or ""
  put_mail(root, record.box, "tasks " .. record.seq .. " " .. line .. whole)
end
