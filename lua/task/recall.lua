-- recall: CLAIMED | RUNNING -> READY
--
-- Takes back tasks that were delivered to a waiting claim and not started in time, or not confirmed
-- where they were delivered RUNNING: the delivery or the worker was lost. No attempt is spent. A
-- task that may have begun is taken back only once in a row, since one that kills its workers must
-- not do so without end; the second time it is left to the reaper.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       how many at most
--       3 tries       how many waiting claims are tried at most
-- FLAGS allow-oom
-- REPLY OK <more> <recalled>

local root, limit, tries = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now, how, recalled = values.now_ms(), { touched = {} }, 0
local due = redis.call("ZRANGEBYSCORE", root .. "handoffs", "-inf", now, "LIMIT", 0, limit)
for _, member in ipairs(due) do
  local id, epoch = string.match(member, "^(.+):(%d+)$")
  local row = redis.call("HMGET", root .. "task:" .. id,
    "state", "token", "lane", "entry", "flags", "settled")
  redis.call("ZREM", root .. "handoffs", member)
  local free = row[1] == "CLAIMED" or row[1] == "RUNNING" and row[6] ~= "recall"
  if free and string.match(row[2], "^%d+") == epoch then
    if row[1] == "RUNNING" then
      late.expect_report(root, id, row[2])
    end
    lease.release(root, id, row, "recall", how)
    recalled = recalled + 1
  end
end
local more = answer.touched(root, now, how.touched, tries) or #due == limit
return { "OK", more and 1 or 0, recalled }
