-- Waiting claims: the memo of each claim, its wait, and the delivery of its answer.

-- Lets a claim wait: the call that makes a task of its lanes claimable writes the answer to its
-- mailbox. A profile is a set of lanes that many waiting claims share. It is written once, and
-- expires when no claim has started to wait under it for `keep_ms`.
local function start_waiting(root, now, waiter, record, lanes_text, lanes, keep_ms)
  local profile = root .. "profile:" .. record.profile
  redis.call("ZADD", root .. "waiting:" .. record.profile, now, waiter)
  if redis.call("PEXPIRE", profile, keep_ms) == 1 then
    return
  end
  redis.call("SET", profile, lanes_text, "PX", keep_ms)
  redis.call("SADD", root .. "profiles:new", record.profile)
  for _, lane in ipairs(lanes) do
    redis.call("SADD", root .. "profiles:" .. lane[1], record.profile)
  end
end

-- The tasks and tokens of `rows` as one line, "id token id token ...".
local function line_of(rows)
  if not rows[2] then
    return rows[1] and rows[1][1] .. " " .. rows[1][2] or ""
  end
  local words = {}
  for _, row in ipairs(rows) do
    words[#words + 1] = row[1]
    words[#words + 1] = row[2]
  end
  return table.concat(words, " ")
end

-- Writes the memo of a claim, so that the same claim sent again gets the same answer. Lets the
-- claim wait for the `missing` tasks if it wants to. Returns how long it waits, in ms.
local function remember_claim(root, now, claim, given, missing, served)
  local memo = root .. "waiter:" .. claim.waiter
  local wait_ms = missing > 0 and claim.wait_ms or 0
  -- Zeros as text: Redis formats numbers slowly.
  redis.call("HSET", memo, "seq", claim.seq, "bits", claim.bits, "consumer", claim.consumer,
    "given", line_of(given), "mailed", "", "n", missing == 0 and "0" or missing,
    "profile", claim.profile, "box", claim.box, "handoff", claim.delivery_ms,
    "until", wait_ms > 0 and now + wait_ms or "0", "start", claim.started and "1" or "0",
    "begin", claim.begin == 0 and "0" or claim.begin)
  if claim.memo_ms ~= "0" then
    redis.call("PEXPIRE", memo, claim.memo_ms)
  end
  redis.call("ZADD", root .. "workers", claim.at, claim.consumer)
  if wait_ms > 0 then
    start_waiting(root, now, claim.waiter, { profile = claim.profile }, claim.lanes, served,
      wait_ms * 12)
  end
  return wait_ms
end

-- The tasks named in `line` ("id token id token ...") whose leases are still held: one row each as
-- take.take returns them, with definitions.
local function still_held(root, line)
  local held = {}
  for id, token in string.gmatch(line or "", "(%S+) (%S+)") do
    local is_leased, row = lease.held(root, id, token)
    if is_leased then
      held[#held + 1] = tasks.holder_row(root, id, token, row[4])
    end
  end
  return held
end

-- The delivered tasks in `line` ("id token ...") that are still held, as rows of the claim that
-- follows; this confirms their delivery. For a claim that is `started`, CLAIMED tasks become
-- RUNNING.
local function carry_over(root, claim, line)
  local carried = {}
  for id, token in string.gmatch(line, "(%S+) (%S+)") do
    local held, row = lease.held(root, id, token, "holder")
    if held then
      redis.call("ZREM", root .. "handoffs", tasks.delivery_member(id, token))
      if claim.started and row[1] == "CLAIMED" then
        lease.start(root, claim.at, id, token, row)
      end
      carried[#carried + 1] = tasks.holder_row(root, id, token, row[4])
    end
  end
  return carried
end

-- Answers a `claim` { waiter, seq, consumer, bits, n, started, version, lanes, profile, box,
-- wait_ms, delivery_ms, memo_ms, begin, at } with the reply of lua/task/claim.lua. It is also
-- the claim that take.take leases to.
function waiting.claim(root, now, claim)
  local memo = root .. "waiter:" .. claim.waiter
  local record = redis.call("HMGET", memo, "seq", "mailed", "until", "profile")
  local seq, last, delivered = tonumber(claim.seq), tonumber(record[1] or 0), record[2] or ""
  if seq < last then
    return { "STALE" }
  elseif seq == last then
    local held = still_held(root, redis.call("HGET", memo, "given") .. " " .. delivered)
    return { "OK", claim.version, math.max(0, tonumber(record[3]) - now), unpack(held) }
  end
  local known = redis.call("HGET", root .. "lanes", "version") or "0"
  if known ~= claim.version then
    return { "LANES", known, unpack(redis.call("HGETALL", root .. "lanes")) }
  end
  local carried = delivered ~= "" and carry_over(root, claim, delivered) or {}
  if record[4] and record[3] ~= "0" then
    redis.call("ZREM", root .. "waiting:" .. record[4], claim.waiter)
  end
  local served, begin = cjson.decode(claim.lanes), claim.begin and claim.begin - #carried
  claim.begin = begin
  local given = take.take(root, now, served, claim.n - #carried, claim)
  claim.begin = begin and begin - #given or ""
  local missing = claim.n - #carried - #given
  for _, row in ipairs(carried) do
    given[#given + 1] = row
  end
  local wait_ms = remember_claim(root, now, claim, given, missing, served)
  return { "OK", known, wait_ms, unpack(given) }
end

-- The memo of a claim: seq, bits, consumer, given, mailed, n, until, profile, box, handoff, start,
-- begin.
function waiting.read(root, waiter)
  return values.fields_of(root .. "waiter:" .. waiter)
end

-- Ends the wait of a claim and writes the tasks in `given` to its mailbox. The worker must confirm
-- them in time, see lua/task/recall.lua.
function waiting.deliver(root, now, waiter, record, given)
  local line = line_of(given)
  redis.call("ZREM", root .. "waiting:" .. record.profile, waiter)
  redis.call("HSET", root .. "waiter:" .. waiter, "mailed", line, "until", 0)
  for _, row in ipairs(given) do
    redis.call("ZADD", root .. "handoffs", now + tonumber(record.handoff),
      tasks.delivery_member(row[1], row[2]))
  end
  -- A claim that starts its tasks at once gets the whole rows and the time: it must not run an old
  -- delivery.
  local whole = record.start == "1" and string.format("\n%.0f ", now) .. cjson.encode(given) or ""
  mailbox.put(root, record.box, "tasks " .. record.seq .. " " .. line .. whole)
end
