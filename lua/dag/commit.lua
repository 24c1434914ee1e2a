-- commit: CREATED -> PENDING | READY
--
-- Makes a DAG visible, all of it at once, after its tasks are written. Tasks that wait for others
-- of the DAG are PENDING from the first call on; the others become PENDING or READY, at most
-- `limit` in each call. `unfinished` names the DAG while some are left, and any client may make the
-- next call.
--
-- KEYS  1 ready       stream  one entry per READY or leased task
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 total       how many tasks it must have; "" to continue with one that is committed
--       4 limit       how many tasks at most in this call
--       5 tries       how many waiting claims to check at most
-- REPLY OK <more> | GONE | STATE <found>

local root, dag, total = ARGV[1], ARGV[2], ARGV[3]
local limit, tries = tonumber(ARGV[4]), tonumber(ARGV[5])

local key = root .. "dag:" .. dag
local row = redis.call("HMGET", key, "status", "total", "dropping")
if not row[1] then
  return { "GONE" }
elseif row[3] then
  return { "STATE", "dropping" }
elseif row[1] == "writing" and row[2] ~= total then
  return { "STATE", "writing " .. row[2] .. " of " .. total }
end
local now, how = values.now_ms(), indexes.collector(limit)
if row[1] == "writing" then
  redis.call("HSET", key, "status", "pending")
  redis.call("ZREM", root .. "writing", dag)
  redis.call("ZADD", root .. "dags", now, dag)
  redis.call("HSET", root .. "unfinished", "commit " .. dag, 0)
  redis.call("HINCRBY", root .. "stats", "submitted", total)
  status.show_waiting(key, how)
end
local page, more = status.next_page(root, dag, "commit", limit)
for _, id in ipairs(page or {}) do
  status.commit_task(root, now, id, how)
end
indexes.enter(root, how)
return { "OK", (answer.touched(root, now, how.touched, tries) or more) and 1 or 0 }
