-- run_now: RETRYING | PENDING -> READY
--
-- Ends the wait of a task for its time. A task that also waits for dependencies continues to wait
-- for them.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 request     names this call: a repetition gets the same reply and changes nothing
--       4 tries       how many waiting claims are tried at most
--       5 events      length of the events stream
--       6 memo_ms     how long that reply is kept
-- FLAGS allow-oom
-- REPLY OK <more> <1: it waited for its time> | GONE | STATE <found>

local root, task, request, tries = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local events, memo_ms = ARGV[5], ARGV[6]

local kept = calls.remembered(root, request)
local row = redis.call("HMGET", root .. "task:" .. task, "state", "flags")
if kept then
  return kept
elseif not row[1] or not tasks.is_visible(root, { state = row[1], flags = row[2] }) then
  return { "GONE" }
elseif not tasks.is_waiting(row[1]) then
  return { "STATE", row[1] }
elseif not redis.call("ZSCORE", root .. "delayed", task) then
  return calls.remember(root, request, memo_ms, { "OK", 0, 0 })
end

local how = indexes.collector(1)
unblock.promote(root, task, how)
indexes.enter(root, how)
event.emit_ready(root, events, how.readied)
local more = answer.touched(root, values.now_ms(), how.touched, tries)
return calls.remember(root, request, memo_ms, { "OK", more and 1 or 0, 1 })
