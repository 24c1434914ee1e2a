-- watch: no move
--
-- Asks to be told by mail when tasks end. Those that have ended already say so at once.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 box         where the mail goes
--       3 keep_ms     how long the asking is remembered
-- EACH  task          its id
-- TOUCHES task:<id> watchers:<id>
-- FLAGS allow-oom
-- REPLY OK [<state> | GONE]...

-- @include flag

local root, box, keep_ms = ARGV[1], ARGV[2], ARGV[3]
local first, stride = 4, 1

local reply = { "OK" }
for at = first, #ARGV, stride do
  local id = ARGV[at]
  local state = redis.call("HGET", root .. "task:" .. id, "state")
  if state and state ~= "COMPLETED" and state ~= "DEAD_LETTERED" and state ~= "CANCELLED" then
    redis.call("SADD", root .. "watchers:" .. id, box)
    redis.call("PEXPIRE", root .. "watchers:" .. id, keep_ms)
    flag(root, id, "w")
  end
  reply[#reply + 1] = state or "GONE"
end
return reply
