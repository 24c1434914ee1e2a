-- start: CLAIMED -> RUNNING
--
-- Begins the execution of claimed tasks. A mailed task may run only after this said OK.
-- Started already by the same token: OK again.
--
-- KEYS  1 ready       stream  its pending list holds the leases; built from root below
-- ARGV  1 root        prefix of every key of the shard
-- EACH  task          its id
--       token         the claim's token
-- TOUCHES task:<id> def:<id> stats handoffs idem:<sha>
-- FLAGS allow-oom
-- REPLY OK [OK | LOST | STATE:<found>]...

-- @include now_ms
-- @include lease_held
-- @include more_of
-- @include free_key
-- @include handoff
-- @include holder_of
-- @include lease_entries
-- @include count

local root = ARGV[1]
local first, stride = 2, 2

local now, reply = string.format("%.0f", now_ms()), { "OK" }
for at = first, #ARGV, stride do
  local id, token = ARGV[at], ARGV[at + 1]
  local held, row = lease_held(root, id, token)
  if not held then
    reply[#reply + 1] = "LOST"
  elseif row[1] == "VALIDATING" then
    reply[#reply + 1] = "STATE:VALIDATING"
  else
    if row[1] == "CLAIMED" then
      local key = root .. "task:" .. id
      redis.call("ZREM", root .. "handoffs", handoff(id, token))
      local claimed, _, owner = holder_of(redis.call("HGET", key, "holder"))
      redis.call("HSET", key, "state", "RUNNING", "holder", claimed .. " " .. now .. " " .. owner)
      lease_entries(root, owner, { row[4] })
      count(root, row[3], "CLAIMED", -1)
      count(root, row[3], "RUNNING", 1)
      local more = more_of(root, id, row[5])
      if more.unique == "until_start" then
        free_key(root, id, more)
      end
    end
    reply[#reply + 1] = "OK"
  end
end
return reply
