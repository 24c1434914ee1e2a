-- cancel: CREATED | PENDING | READY | RETRYING | CLAIMED | RUNNING | VALIDATING -> CANCELLED
--
-- Gives up all of a DAG that has not ended: from the first call on nothing of it is handed out, and
-- each cancels so many of its tasks. `unfinished` names it until the last is reached.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 reason      why, kept with each task; "" to go on with what was begun
--       4 limit       how many tasks at most in this call
--       5 how         JSON {archive, ttl, events}
--       6 request     names the call: sent again, it says the same
-- FLAGS allow-oom
-- REPLY OK <more> <cancelled so far> | GONE | STATE <status>: nothing of it is open

local root, dag, reason, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local how, request = calls.read_options(root, ARGV[5]), ARGV[6]

local key = root .. "dag:" .. dag
local row = redis.call("HMGET", key, "status", "open", "closing", "why", "request", "cancelled")
if not row[1] or row[1] == "writing" then
  return { "GONE" }
end
-- The call that began it only goes on: a task that was revived meanwhile is not its own.
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
-- Not only its own: what waits for one that it has cancelled may have been cancelled by another.
local since = redis.call("HMGET", key, "cancelled", "before")
return { "OK", more and 1 or 0, since[1] - (since[2] or since[1]) }
