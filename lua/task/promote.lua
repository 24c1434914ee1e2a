-- promote: RETRYING | PENDING -> READY
--
-- Makes tasks READY whose time has come: retries, parked tasks, and scheduled ones that wait for
-- nothing else. Answers the claims that wait at a gate whose time has come.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       how many at most
--       3 tries       how many waiting claims are tried at most
--       4 events      length of the events stream
--       5 woken       how many due gates and accounts are checked at most
--       6 back        how many unpaid tasks of DAGs return to their lanes at most
-- FLAGS allow-oom
-- REPLY OK <more> <promoted> <when the next is due or the next gate opens, ms, 0 for none>

local root, limit, tries, events = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local woken, back = tonumber(ARGV[5]), tonumber(ARGV[6])

local now, how, promoted = values.now_ms(), indexes.collector(limit), 0
local due = redis.call("ZRANGEBYSCORE", root .. "delayed", "-inf", now, "LIMIT", 0, limit)
for _, id in ipairs(due) do
  promoted = promoted + (unblock.promote(root, id, how) and 1 or 0)
end
indexes.enter(root, how)
event.emit_ready(root, events, how.readied)
if redis.call("EXISTS", root .. "short") == 1 then
  accounts.emit_short(root, events)
end
how.back = back
local left = wake.due(root, now, how, woken)
local more = answer.touched(root, now, how.touched, tries) or #due == limit or left
local following = redis.call("ZRANGE", root .. "delayed", 0, 0, "WITHSCORES")
local following_ms = values.sooner(following[2], wake.next_at(root, now))
return { "OK", more and 1 or 0, promoted, following_ms or "0" }
