-- @include waiter_of
-- @include lease_entries
-- @include write_claim
-- @include count
-- @include mail_claim
-- Gives a `task` { id, entry, lane, definition } that was just written, and is in no lane yet, to
-- a parked claim. Returns false where the long answer must decide: its wait is over, it may be
-- given nothing, or there is something else that it may be given first.
local function bring_task(root, now, waiter, profile, task)
  local record = waiter_of(root, waiter)
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
    or lease_entries(root, record.consumer, { entry }) then
    return false
  end
  local started = record.start == "1"
  local row = write_claim(root, string.format("%.0f", now), id, { entry, false, false, definition },
    { consumer = record.consumer, bits = record.bits, started = started },
    (tonumber(record.begin) or 1) > 0)
  count(root, lane, started and "RUNNING" or "CLAIMED", 1)
  mail_claim(root, now, waiter, record, { row })
  return true
end
