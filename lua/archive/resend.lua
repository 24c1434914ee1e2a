-- resend: no move
--
-- Puts ended tasks into the outbox that neither it nor the archive has. One that has not ended, or
-- lives again, is passed over. Sent again it sends them again: a row that is there changes nothing.
--
-- KEYS  1 outbox      stream  what has ended
-- ARGV  1 root        prefix of every key of the shard
-- EACH  task          its id
--       life          the life that the archive has not
-- FLAGS allow-oom
-- REPLY OK <tasks>

local root = ARGV[1]
local first, stride = 2, 2

local final = { COMPLETED = true, CANCELLED = true, DEAD_LETTERED = true }

local ended = {}
for at = first, #ARGV, stride do
  local id, life = ARGV[at], ARGV[at + 1]
  local row = redis.pcall("HMGET", root .. "task:" .. id, "state", "more")
  local state, more = row[1], values.decoded(row[2])
  if final[state] and tostring(more.life or 1) == life then
    -- A dead one may live again before it is archived.
    local copy = state == "DEAD_LETTERED" and " " .. event.snapshot(root, id) or ""
    ended[#ended + 1] = id
    ended[#ended + 1] = life .. " " .. state .. copy
  end
end
event.send_to_outbox(root, true, ended)
return { "OK", #ended / 2 }
