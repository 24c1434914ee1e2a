-- @include waiter_of
-- @include still_held rarely
-- @include carry_over rarely
-- @include take
-- @include remember_claim
-- A claim of the conversation `ask` { waiter, seq, consumer, bits, n, start, version, lanes,
-- profile, box, park_ms, handoff_ms, memo_ms, begin }: the reply of lua/task/claim.lua.
local function claim_tasks(root, now, ask)
  local record = waiter_of(root, ask.waiter)
  local last = tonumber(record.seq or "0")
  if ask.seq < last then
    return { "STALE" }
  elseif ask.seq == last then
    local held = still_held(root, record.given .. " " .. record.mailed)
    return { "OK", ask.version, math.max(0, tonumber(record["until"]) - now), unpack(held) }
  end
  local known = redis.call("HGET", root .. "lanes", "version") or "0"
  if known ~= ask.version then
    return { "LANES", known, unpack(redis.call("HGETALL", root .. "lanes")) }
  end
  local mailed, wanted = record.mailed or "", cjson.decode(ask.lanes)
  local carried = mailed ~= "" and carry_over(root, now, mailed, ask.start) or {}
  if record.profile and record["until"] ~= "0" then
    redis.call("ZREM", root .. "waiting:" .. record.profile, ask.waiter)
  end
  local begin = ask.begin and ask.begin - #carried
  local given = take(root, now, wanted, ask.n - #carried,
    { consumer = ask.consumer, waiter = ask.waiter, bits = ask.bits, started = ask.start,
      begin = begin })
  ask.begin = begin and begin - #given or ""
  local short = ask.n - #carried - #given
  for _, row in ipairs(carried) do
    given[#given + 1] = row
  end
  local wait_ms = remember_claim(root, now, ask, given, short, wanted)
  return { "OK", known, wait_ms, unpack(given) }
end
