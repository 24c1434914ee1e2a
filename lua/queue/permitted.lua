-- permitted: no move
--
-- Returns which commands this user may not send to the queue's keys. `doctor` calls it.
--
-- KEYS  1 ready       stream  any key of the queue
-- ARGV  1 root        prefix of every key of the shard
-- EACH  command       its words up to the first key, separated by spaces
-- FLAGS no-writes
-- REPLY OK [<position of a refused row, from 1>]...

local ready, first = KEYS[1], 2
local reply = { "OK" }
for at = first, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[at], "%S+") do
    words[#words + 1] = word
  end
  -- The key is repeated more often than any command needs it: Redis 7.0.15 and Valkey 9.1.2 read
  -- beyond the arguments of a call that is too short, and crash.
  for _ = 1, 5 do
    words[#words + 1] = ready
  end
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  if not (known and allowed) then
    reply[#reply + 1] = at - first + 1
  end
end
return reply
