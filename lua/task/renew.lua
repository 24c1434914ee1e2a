-- renew: no move
--
-- Renews the leases of one worker and enforces their time limits: a task CLAIMED too long or
-- RUNNING beyond its timeout is not renewed, and the reply names the reason.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
--       2 consumer    the worker
--       3 claim_ms    how long a task may stay CLAIMED
--       4 timeout_ms  how long a task may run that has no timeout of its own
--       5 grace_ms    how long after its timeout a task is still renewed
-- EACH  task          its id
--       token         the claim's token
-- FLAGS allow-oom
-- REPLY OK <lane version> [OK | LOST | claim_expired | timeout]...

local root, consumer, claim_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local timeout_ms, grace_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local first, stride = 6, 2

local function verdict(now, id, row, token)
  local state, held = row[1], row[2] == token
  local claimed, started, owner = tasks.split_holder(held and row[3] or "")
  if owner ~= consumer then
    return "LOST"
  elseif state == "CLAIMED" then
    return now - claimed > claim_ms and "claim_expired" or "OK"
  elseif state == "RUNNING" or state == "VALIDATING" then
    local limit = tasks.more(root, id, row[5]).timeout or timeout_ms
    local since = started == "0" and claimed or started
    return now - since > limit + grace_ms and "timeout" or "OK"
  end
  return "LOST"
end

local now = values.now_ms()
local reply, kept = { "OK", redis.call("HGET", root .. "lanes", "version") or "0" }, {}
for at = first, #ARGV, stride do
  local row = redis.call("HMGET", root .. "task:" .. ARGV[at],
    "state", "token", "holder", "entry", "flags")
  local word = verdict(now, ARGV[at], row, ARGV[at + 1])
  if word == "OK" then
    kept[#kept + 1] = row[4]
  end
  reply[#reply + 1] = word
end
redis.call("ZADD", root .. "workers", now, consumer)
if #kept > 0 then
  lease.take_entries(root, consumer, kept)
end
return reply
