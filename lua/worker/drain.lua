-- drain: no move
--
-- Drains all current runs of a worker: they get no more tasks, and end when their running
-- tasks have finished. A run that starts later under the same name is not affected. With `why` the
-- worker is blamed for its failures, which is emitted as an event and stored.
--
-- KEYS  1 events      stream  the events that happened, capped
-- ARGV  1 root        prefix of every key of the shard
--       2 worker      its name
--       3 cap         maximum length of the events stream
--       4 why         what it is blamed for, in words; "" where an operator drains it
--       5 request     name of this call; repeated, it returns the first reply and changes nothing
--       6 memo_ms     how long the reply is kept for a repeated call
-- FLAGS allow-oom
-- REPLY OK <runs that drain> | GONE

local root, worker, cap, why = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local request, memo_ms = ARGV[5], ARGV[6]

local kept = calls.remembered(root, request)
if kept then
  return kept
end
local now, key, drained, fresh = values.now_ms(), root .. "worker:" .. worker, 0, false
for run, last in pairs(calls.registered_runs(root, worker)) do
  if last >= now then
    drained = drained + 1
    if redis.call("HSETNX", key, "drain:" .. run, string.format("%.0f", now)) == 1 then
      -- A run that has not claimed yet has no mailbox: it is notified when it registers again.
      local box = redis.call("HGET", root .. "waiter:" .. run, "box")
      if box then
        mailbox.put(root, box, "drain " .. run)
      end
      event.emit(root, cap, "worker.draining", worker, run)
      fresh = true
    end
  end
end
if drained == 0 then
  return { "GONE" }
end
if fresh and why ~= "" then
  redis.call("HSET", key, "blamed", string.format("%.0f", now))
  event.emit(root, cap, "worker.blamed", worker, why)
end
return calls.remember(root, request, memo_ms, { "OK", drained })
