-- mend: no move
--
-- Checks that tasks are in every index that their state implies, and adds them where they are
-- missing. This is one half of the sweep: from the tasks to the indexes.
--
-- KEYS  1 ready       stream  one entry per READY or leased task
-- ARGV  1 root        prefix of every key of the shard
--       2 parents     how many dependencies of a PENDING task to check
-- EACH  task          its id
-- FLAGS allow-oom
-- REPLY OK <repaired>

local root, parents = ARGV[1], ARGV[2]
local first, stride = 3, 1

local now, mended = string.format("%.0f", values.now_ms()), 0
local orphans = redis.call("EXISTS", root .. "orphans") == 1
for at = first, #ARGV, stride do
  local id = ARGV[at]
  if orphans then
    redis.call("SREM", root .. "orphans", id)
  end
  local missing = mend.task(root, now, id, parents)
  if missing or (missing == nil and mend.drop_torn(root, id)) then
    mended = mended + 1
  end
end
return { "OK", mend.count_repaired(root, mended) }
