-- @include named
-- @include park_claim rarely
-- Keeps what a claim gave, so that it can be asked for again, and lets it wait for the `short`
-- tasks that are missing, if it wants to. Returns how long it waits.
local function remember_claim(root, now, ask, given, short, wanted)
  local memo = root .. "waiter:" .. ask.waiter
  local wait_ms = short > 0 and ask.park_ms or 0
  redis.call("HSET", memo, "seq", ask.seq, "bits", ask.bits, "consumer", ask.consumer,
    "given", named(given), "mailed", "", "n", short, "profile", ask.profile, "box", ask.box,
    "handoff", ask.handoff_ms, "until", wait_ms > 0 and now + wait_ms or 0,
    "start", ask.start and 1 or 0, "begin", ask.begin)
  if ask.memo_ms ~= "0" then
    redis.call("PEXPIRE", memo, ask.memo_ms)
  end
  redis.call("ZADD", root .. "workers", now, ask.consumer)
  if wait_ms > 0 then
    park_claim(root, now, ask.waiter, { profile = ask.profile }, ask.lanes, wanted, wait_ms * 12)
  end
  return wait_ms
end
