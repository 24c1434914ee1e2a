-- drain: no move
--
-- Nothing more is handed out to those that run under a worker's name now, and they are told to end
-- when they have finished what is in their hands. One that starts later under the same name is not
-- meant. With `why` it is blamed for its failures, which is told and kept.
--
-- KEYS  1 events      stream  what happened, for looking; capped
-- ARGV  1 root        prefix of every key of the shard
--       2 worker      its name
--       3 cap         length of the events stream
--       4 why         what it is blamed for, in words; "" where an operator sends it home
--       5 request     names this call: sent again, it is answered as before and changes nothing
--       6 memo_ms     how long that is remembered
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
      -- One that has not claimed yet has no box: it is told when it registers again.
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
