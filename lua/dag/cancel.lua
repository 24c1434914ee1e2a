-- cancel: CREATED | PENDING | READY | RETRYING | CLAIMED | RUNNING | VALIDATING -> CANCELLED
--
-- Cancels all tasks of a DAG that have not ended. After the first call none of them can be claimed,
-- and each call cancels at most `limit` of them. `unfinished` names the DAG until the last is
-- reached.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 reason      why, stored with each task; "" to continue a cancellation that was begun
--       4 limit       how many tasks at most in this call
--       5 how         JSON {archive, ttl, events}
--       6 request     name of this call; repeated, it only continues what it began
-- FLAGS allow-oom
-- REPLY OK <more> <cancelled so far> | GONE | STATE <status>: none of its tasks is open

local root, dag, reason, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local how, request = calls.read_options(root, ARGV[5]), ARGV[6]

local key = root .. "dag:" .. dag
local row = redis.call("HMGET", key, "status", "open", "closing", "why", "request", "cancelled")
if not row[1] or row[1] == "writing" then
  return { "GONE" }
end
-- A repeated call only continues: it must not cancel a task that was retried meanwhile.
local fresh = reason ~= "" and row[5] ~= request
if fresh and row[2] == "0" then
  return { "STATE", row[1] }
elseif fresh and not row[3] then
  redis.call("HSET", key, "closing", "cancelled", "why", reason, "request", request,
    "before", row[6])
  redis.call("HSET", root .. "unfinished", "cancel " .. dag, 0)
  row[4] = reason
elseif fresh and not row[5] then
  redis.call("HSET", key, "request", request)
end
local now, page, more = values.now_ms(), status.next_page(root, dag, "cancel", limit)
how.ended, how.request, how.whole = {}, request, true
for _, id in ipairs(page or {}) do
  cancel.one(root, now, id, row[4] or "", "cascade", how)
end
status.write_tallies(root, now, how)
event.send_to_outbox(root, how.archive, how.ended)
-- Also counts tasks that another call has cancelled because they waited for one of these.
local since = redis.call("HMGET", key, "cancelled", "before")
return { "OK", more and 1 or 0, since[1] - (since[2] or since[1]) }
