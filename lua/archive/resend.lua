-- resend: no move
--
-- Adds ended tasks to the outbox that are neither there nor in the archive. Skips tasks that have
-- not ended or were retried since. A repeated call adds them again, which is harmless: the archive
-- does not change a row that exists.
--
-- KEYS  1 outbox      stream  ended tasks for the archive
-- ARGV  1 root        prefix of every key of the shard
-- EACH  task          its id
--       life          number of the life that the archive does not have
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
    -- A dead task may be retried before it is archived: its entry carries a snapshot.
    local copy = state == "DEAD_LETTERED" and " " .. event.snapshot(root, id) or ""
    ended[#ended + 1] = id
    ended[#ended + 1] = life .. " " .. state .. copy
  end
end
event.send_to_outbox(root, true, ended)
return { "OK", #ended / 2 }
